// SPDX-License-Identifier: Apache-2.0
// The loop in one world: steps, evaluations, checkpoints, and when to stop. What is due follows
// from the state and the course of the run, so another loop, in the next world, goes on where this
// one was left, wherever that was.
#pragma once

#include <chrono>
#include <optional>

#include "checkpoint/store.h"
#include "trainer/adaptation/hints.h"
#include "trainer/decision_points.h"
#include "trainer/report.h"
#include "trainer/step.h"

namespace bellows::trainer {

/// What outlives worlds.
struct Job {
  const Options& options;
  const Dataset& dataset;
  torch::Device device;
  TrainingState& state;
  Course& course;
  Report& report;
  SampleRecord& record;
  Policy& policy;
  double& seconds_per_sample;  // of this process, where it is measured; 0: not yet
};

enum class Outcome {
  kFinished,        // a limit is reached
  kStopped,         // a signal came; checkpoint written
  kStoppedUnsaved,  // a signal came; no --checkpoint-dir, or writing failed
  kChange,          // the world is to be changed
};

/// All methods are collective and throw MpiError when the world breaks: the state is then that of a
/// whole step.
class Training {
 public:
  /// `nodes` that the ranks are on.
  Training(const Job& job, Team& team, ElasticWorld& world, int nodes);

  /// When no rank has the state: takes that of the checkpoint that --resume asks for, or the fresh
  /// one, on all ranks. Throws SharedError.
  void resume();
  /// Trains until a limit, a signal or a change. Throws SharedError when the loss is no longer a
  /// number.
  Outcome run();

 private:
  bool reached_limit() const;
  bool evaluation_due() const;
  bool checkpoint_due() const;
  unsigned decide() const;
  void step(Stepper& stepper, DecisionPoints& decisions);
  std::vector<double> known_speeds();
  void look_for_stragglers(const Stepper& stepper);
  void do_what_is_due();
  void evaluate_now();
  void tell_evaluation();
  void reports_are_out();
  bool save();
  void close(const char* reason);
  Outcome finish();
  Outcome stop();
  void read_checkpoint(std::string& from);
  void tell_progress(const StepResult& result);

  const Options& options_;
  const Dataset& dataset_;
  torch::Device device_;
  TrainingState& state_;
  Course& course_;
  Report& report_;
  SampleRecord& record_;
  Team& team_;
  ElasticWorld& world_;
  Policy& policy_;
  int nodes_;
  double& seconds_per_sample_;
  std::vector<std::string> hosts_;          // of the ranks, where speeds are measured
  int straggler_ = -1;                      // that was told of
  std::optional<checkpoint::Store> store_;  // rank 0
  unsigned control_ = kGoOn;                // of the last step
  std::chrono::steady_clock::time_point told_{};
  PacedHints hints_;  // rank 0
};

}  // namespace bellows::trainer
