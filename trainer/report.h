// SPDX-License-Identifier: Apache-2.0
// What the user sees of a training: a line that renews itself on a terminal, log lines elsewhere,
// JSON lines in a file.
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <string>

#include "protocol/line_file.h"
#include "trainer/options/options.h"
#include "trainer/state/course.h"
#include "trainer/state/training_state.h"
#include "trainer/step/step.h"

namespace bellows::trainer {

/// A change of the world, as people hear of it.
struct Change {
  std::int64_t epoch = 0;
  int joined = 0;
  int left = 0;  // or died
  bool repair = false;
  std::uint64_t bytes = 0;  // of state that was sent
};

class Report {
 public:
  /// Says nothing before enter(). `course` must outlive it.
  Report(const Options& options, const Dataset& dataset, Course& course);
  ~Report();

  /// In each world: rank 0 reports; on other ranks (`ranks` 0) all calls only count. Throws
  /// UsageError when the file of --metrics cannot be written.
  void enter(int ranks);

  void start(const TrainingState& state, const std::string& device, int threads);
  void change(const TrainingState& state, const Change& change);
  void step(const TrainingState& state, const StepResult& result);
  /// A rank takes so many times as long per sample as the others.
  void straggler(const TrainingState& state, int rank, const std::string& host, double slowness);
  /// A rank has not had the memory for as many samples at once as it should work on.
  void short_of_memory(const TrainingState& state, const StepResult& result);
  /// A decision that is under way promises so many times the present goodput.
  void promised(double ratio) { promised_ = ratio; }
  void evaluation(const TrainingState& state, const Sums& sums, double seconds);
  void checkpoint(const TrainingState& state, const std::string& file, double seconds);
  void resume(const TrainingState& state, const std::string& file);
  /// A line for people, on standard error.
  void warning(const std::string& text);
  void note(const std::string& text);
  /// Ends with the line "result: ...", the last of the run.
  void end(const TrainingState& state, const Sums& test, const std::string& reason);
  /// What was no training ends here: the time of the next step counts from now.
  void pause_over() { course_.worked = Clock::now(); }
  /// Samples per second since the start of the run or of this process, without evaluations.
  double speed() const;
  /// The same since the last call of world_begins().
  double world_speed() const;
  void world_begins();
  /// Samples to the end of the run; -1 where only time ends it.
  double samples_left(const TrainingState& state) const;

 private:
  using Clock = std::chrono::steady_clock;
  void line(const std::string& text);
  void metric(const char* event, boost::json::object fields);
  double done(const TrainingState& state) const;
  std::string eta(const TrainingState& state) const;
  std::string quality(const Sums& sums) const;
  void tell_batch(const TrainingState& state);
  void tell_if_too_large(const TrainingState& state);
  std::string adaptation(const TrainingState& state, const StepResult& result) const;

  const Options& options_;
  Course& course_;
  int ranks_ = 0;
  bool tokens_;
  bool classifies_;  // whether it is counted how many samples are right
  std::uint64_t pass_samples_;
  bool terminal_ = false;
  bool line_open_ = false;
  protocol::LineFile metrics_;
  // What is told once.
  bool metrics_failed_ = false, batch_too_large_ = false;
  double promised_ = 0;
  // Since the last line.
  Clock::time_point shown_{};
  double interval_seconds_ = 0;
  std::uint64_t samples_before_ = 0;  // the present world
  double seconds_before_ = 0;
  std::uint64_t interval_samples_ = 0;
  std::int64_t interval_steps_ = 0;
  StepClock::Seconds interval_parts_{};
  Sums interval_;
};

}  // namespace bellows::trainer
