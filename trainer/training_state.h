// SPDX-License-Identifier: Apache-2.0
// All that a training is at a step boundary, independent of the world it runs in: what a
// checkpoint holds and what a rank that joins must get.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/dataset.h"
#include "trainer/model.h"
#include "trainer/optimizer.h"
#include "trainer/options.h"
#include "trainer/sampler.h"

namespace bellows::trainer {

/// Sums over targets (samples, or characters of a text), over all ranks.
struct Sums {
  double loss = 0;
  double correct = 0;
  double targets = 0;
  void add(const Sums& other);
  double mean_loss() const { return targets > 0 ? loss / targets : 0; }
  double accuracy() const { return targets > 0 ? correct / targets : 0; }
};

struct TrainingState {
  /// A fresh state: parameters from options.seed, nothing trained.
  TrainingState(const Options& options, const Dataset& dataset, const torch::Device& device);

  std::shared_ptr<Model> model;
  NamedTensors parameters;
  NamedTensors buffers;
  std::unique_ptr<Optimizer> optimizer;
  Sampler sampler;
  std::int64_t step = 0;      // updates made
  std::uint64_t samples = 0;  // samples used
  Sums pass_sums;             // of the pass in hand

  /// Parameters, buffers, optimizer state: the same order on every rank.
  std::vector<torch::Tensor> tensors() const;
  /// The rest of the state as text, for sending.
  std::string counters() const;
  void set_counters(const std::string& text);
  /// Of every bit of the parameters.
  std::uint64_t parameter_hash() const;
};

class Team;
/// Makes the state of all ranks that of `root`. Collective.
void replicate(TrainingState& state, Team& team, int root = 0);

}  // namespace bellows::trainer
