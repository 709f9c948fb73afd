// SPDX-License-Identifier: Apache-2.0
// The loop: steps, evaluations, checkpoints, and when to stop. It ends at a step boundary, where
// the world may change and another loop may go on with the same state.
#pragma once

#include <chrono>
#include <optional>

#include "checkpoint/store.h"
#include "trainer/report.h"
#include "trainer/step.h"

namespace bellows::trainer {

enum class Outcome {
  kFinished,        // a limit is reached
  kStopped,         // a signal came; checkpoint written
  kStoppedUnsaved,  // a signal came; no --checkpoint-dir, or writing failed
};

class Training {
 public:
  Training(const Options& options, const Dataset& dataset, const torch::Device& device,
           TrainingState& state, Team& team, Report& report);

  /// Takes the state of the checkpoint that --resume asks for on all ranks. Throws SharedError.
  void resume();
  /// Trains until a limit or a signal. Throws MpiError when the world breaks, SharedError when the
  /// loss is no longer a number.
  Outcome run();

 private:
  bool reached_limit() const;
  unsigned decide() const;
  bool checkpoint_due(const StepResult& result) const;
  void evaluate_now();
  bool save();
  Outcome finish();
  Outcome stop();

  const Options& options_;
  const Dataset& dataset_;
  torch::Device device_;
  TrainingState& state_;
  Team& team_;
  Report& report_;
  std::optional<checkpoint::Store> store_;  // rank 0
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point saved_;
  std::int64_t saved_step_ = -1;
  std::int64_t evaluated_step_ = -1;
  Sums test_;
};

}  // namespace bellows::trainer
