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
#include "trainer/step/step.h"
#include "trainer/workload.h"

namespace bellows::trainer {

/// What outlives worlds.
struct Job {
  const Options& options;
  Workload& workload;
  torch::Device device;
  TrainingState& state;
  Course& course;
  Report& report;
  SampleRecord& record;
  Policy& policy;
  double& seconds_per_sample;  // of this process, where it is measured; 0: not yet
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
  /// Once, before the first step in this world.
  void begin();
  /// Before each step: does what is due, and says if there is to be none.
  std::optional<Outcome> before_step();
  void begin_step();
  /// All passes of this rank's share: the model's, over the data.
  void run_passes() { stepper_->run_passes(); }
  /// Or one by one, by who has another way to run them.
  Passes& passes() { return *stepper_->passes(); }
  StepClock& clock() { return clock_; }
  /// Throws SharedError when the loss is no longer a number.
  void end_step();
  bool in_step() const { return in_step_; }
  /// A signal has come, or the world is to be changed: before_step() would say so.
  bool interrupted() const;
  bool reached_limit() const;
  /// settle() would save: a collective.
  bool save_due() const { return course_.settled_step != state_.step && checkpoint_due(); }
  /// What is due after the step that was made: evaluations, checkpoints. Once for each step.
  void settle();
  /// The end of a training that has reached a limit.
  Outcome finish();
  /// What an evaluation has found, as sums over all ranks; it took so many seconds.
  void evaluated(const Sums& test, double seconds);

  /// What was no training ends here: the time of the next step counts from now.
  void pause_over() { report_.pause_over(); }

  Team& team() { return team_; }
  const TrainingState& state() const { return state_; }
  const Course& course() const { return course_; }

 private:
  /// The world is to be changed, and there are steps left to make in the new one.
  bool change_due() const;
  bool evaluation_due() const;
  bool checkpoint_due() const;
  /// A test of the present step, which has not been made.
  bool test_due() const;
  unsigned decide() const;
  std::vector<double> known_speeds();
  void look_for_stragglers();
  void evaluate_now();
  void tell_evaluation();
  void reports_are_out();
  bool save(bool test_due);
  void close(const char* reason);
  Outcome stop();
  void read_checkpoint(std::string& from, bool& test_due);
  void tell_progress(const StepResult& result);

  const Options& options_;
  Workload& workload_;
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
  StepClock clock_;
  PassContext context_;
  std::optional<DecisionPoints> decisions_;
  std::optional<Stepper> stepper_;
  bool in_step_ = false;
  PacedHints hints_;  // rank 0
};

}  // namespace bellows::trainer
