// SPDX-License-Identifier: Apache-2.0
// All that a training is at a step boundary, independent of the world it runs in: what a
// checkpoint holds and what a rank that joins must get.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/adaptation/adaptation.h"
#include "trainer/adaptation/gradient_norm.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"
#include "trainer/network/model.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/schedule.h"
#include "trainer/optimizer/weight_average.h"
#include "trainer/options/options.h"

namespace bellows::trainer {

/// Sums over targets (samples, or characters of a text), over all ranks.
struct Sums {
  double loss = 0;
  double correct = 0;
  double targets = 0;
  void add(const Sums& other);
  double mean_loss() const { return targets > 0 ? loss / targets : 0; }
  double accuracy() const { return targets > 0 ? correct / targets : 0; }
  bool operator==(const Sums&) const = default;
};

/// The part of the state that is no tensor. Sent and stored as bytes: whole words only.
struct Counters {
  std::uint64_t pass = 0;
  std::uint64_t offset = 0;
  std::uint64_t samples = 0;
  std::int64_t step = 0;
  std::int64_t updates = 0;
  Sums pass_sums;
  Adaptation adaptation;
  bool operator==(const Counters&) const = default;
};

/// The gradient of the last step, where the next one is to be compared with it: that of a world of
/// one rank which made one pass. It is not sent to others, since several ranks compare their own.
struct PreviousGradient {
  std::vector<torch::Tensor> gradients;
  double batch = 0;  // samples; 0: there is none
};

/// Between its updates (one per step) the state is that of a whole step. Forward and backward
/// passes do not change it: they work on the model's own buffers and on libtorch's generator, which
/// begin_step() sets and update_buffers() reads, so a step that fails leaves nothing behind.
struct TrainingState {
  /// A fresh state: parameters from options.seed, nothing trained.
  TrainingState(const Options& options, const Dataset& dataset, const torch::Device& device);
  /// The same for what somebody else has made, of a training on so many samples.
  TrainingState(const Options& options, NamedTensors parameters, const NamedTensors& buffers,
                std::unique_ptr<Optimizer> optimizer, std::uint64_t training_samples);

  std::shared_ptr<Model> model;  // null where the passes are somebody else's
  NamedTensors parameters;
  NamedTensors buffers;     // copies of the model's, as of the last step
  torch::Tensor generator;  // libtorch's on the CPU, likewise
  std::unique_ptr<Optimizer> optimizer;
  WeightAverage average;             // keeps nothing unless --ema asks for it
  std::unique_ptr<PassNorms> norms;  // null where gradient noise is not measured
  PreviousGradient previous;
  Sampler sampler;
  std::int64_t step = 0;      // updates made
  std::uint64_t samples = 0;  // samples used
  Sums pass_sums;             // of the pass in hand
  Adaptation adaptation;      // of batch and learning rate
  /// Whether this is the state of the run: false until the training has begun, or until the state
  /// has come from a checkpoint or another rank in full.
  std::atomic<bool> complete = false;

  /// Before each forward pass that belongs to a step, or to an evaluation.
  void begin_step();
  /// After it, as a part of the update.
  void update_buffers();
  /// The model's own buffers of the moment, in the order of `buffers`: an exported network may put
  /// other tensors in their places. Throws std::runtime_error where one is of another kind.
  std::vector<torch::Tensor> model_buffers() const;

  /// Generator, buffers, parameters, optimizer state, averages: the same order on every rank. The
  /// parameters' own memory, also while the model computes with the averages.
  std::vector<torch::Tensor> tensors() const;
  /// In the units of the limits.
  Standing standing(const Options& options) const;
  Counters counters() const;
  void set_counters(const Counters& counters);
  /// Of every bit of what a model computes with: parameters, buffers, averages.
  std::uint64_t parameter_hash() const;
  /// Of every bit that must be the same on all ranks: those, optimizer state, counters.
  std::uint64_t common_hash() const;

 private:
  std::vector<torch::Tensor> program_buffers_;  // where there is no model
  std::vector<torch::Tensor> memory_;           // of the parameters
};

class Team;
/// Makes the state of all ranks that of `root`. Collective.
void replicate(TrainingState& state, Team& team, int root = 0);

}  // namespace bellows::trainer
