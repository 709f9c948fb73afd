// SPDX-License-Identifier: Apache-2.0
// What decides on batch, learning rate and size while a training runs: the built-in rules
// (rules.h), or a user's own from a shared library (--policy). Needs nothing but the standard
// library and throughput.h beside it.
//
//   class Mine : public bellows::trainer::Policy {
//     Decision decide(const Situation& now) override { … }
//   };
//   BELLOWS_POLICY(Mine)
//
//   g++ -std=c++20 -shared -fPIC -I PREFIX/include/bellows mine.cc -o mine.so
//   bellows-train --policy ./mine.so …
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/adaptation/throughput.h"

namespace bellows::trainer {

/// All that has been measured, at a decision point.
struct Situation {
  std::int64_t step = 0;  // updates made
  double progress = 0;    // in steps of the base batch; see training.md
  double passes = 0;      // over the data
  double loss = 0;        // mean per target since the last decision; NaN before the first step
  bool new_world = false;

  int ranks = 1;
  int nodes = 1;
  std::int64_t base_batch = 1;  // --batch
  std::int64_t rank_batch = 0;  // --rank-batch, or what the start made of it; 0: no rule uses it
  // Of the last step, in samples; 0 before the first. A rank works through its share of the batch
  // in accumulation + 1 passes of at most micro_batch.
  std::int64_t batch = 0;
  std::int64_t micro_batch = 0;
  std::int64_t accumulation = 0;
  double learning_rate = 0;  // of the last step
  double lr_factor = 1;      // as a policy has set it

  // Averages, zero while nothing is known (gradient_noise.h).
  std::int64_t noise_estimates = 0;
  double gradient_square = 0;    // of the mean gradient
  double gradient_variance = 0;  // of that of the base batch
  double noise_scale = 0;        // samples; infinite where the mean cannot be told from zero
  double gain = 1;               // steps of the base batch that one at present is worth

  // Step times of all that has been used, and their model once there are some.
  std::vector<StepTimes> times;
  const ThroughputModel* model = nullptr;
  double samples_per_second = 0;  // with the present nodes, ranks and micro-batch; 0: not known
  /// Samples per second, each counted for what it is worth, that the model predicts. Null without
  /// a model.
  std::function<double(int nodes, int ranks, std::int64_t micro_batch, std::int64_t accumulation)>
      goodput;
  /// Samples that a rank can work on at once: by --micro-batch-bounds, and by what memory has been
  /// found to hold. 0: not bounded as far as known.
  std::int64_t micro_batch_most = 0;
};

/// What is to change from the next step on. Zeros: as it is.
struct Decision {
  std::int64_t batch = 0;        // of all ranks; cut to --max-batch
  std::int64_t micro_batch = 0;  // at most, within --micro-batch-bounds
  double lr_factor = 0;          // on the rate, beside that of --lr-rule
  int ranks = 0;                 // to ask bellows-run for
  double promise = 0;            // predicted goodput over that of the present; for the report
};

/// Asked on rank 0, before the first step in each world and then every --decide-every steps. When
/// rank 0 dies, another rank's object is asked: what must last is to be found in the Situation.
class Policy {
 public:
  virtual ~Policy() = default;
  /// What it throws (std::exception) is told as a warning, and nothing is changed.
  virtual Decision decide(const Situation& now) = 0;
};

inline constexpr int kPolicyVersion = 3;

}  // namespace bellows::trainer

/// In a shared library for --policy: makes policies of this type.
#define BELLOWS_POLICY(Type)                                                           \
  extern "C" int bellows_policy_version() { return bellows::trainer::kPolicyVersion; } \
  extern "C" bellows::trainer::Policy* bellows_make_policy() { return new Type; }
