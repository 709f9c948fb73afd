// SPDX-License-Identifier: Apache-2.0
// What the user sees of a training: a line that renews itself on a terminal, log lines elsewhere,
// JSON lines in a file.
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "trainer/options.h"
#include "trainer/step.h"
#include "trainer/training_state.h"

namespace bellows::trainer {

class Report {
 public:
  /// Rank 0's reports; on other ranks (`ranks` 0) all calls do nothing. Throws UsageError when the
  /// file of --metrics cannot be written.
  Report(const Options& options, const Dataset& dataset, int ranks);
  ~Report();

  void start(const TrainingState& state, const std::string& device, int threads);
  void step(const TrainingState& state, const StepResult& result);
  void evaluation(const TrainingState& state, const Sums& sums, double seconds);
  void checkpoint(const TrainingState& state, const std::string& file, double seconds);
  void resume(const TrainingState& state, const std::string& file);
  /// A line for people, on standard error.
  void warning(const std::string& text);
  void note(const std::string& text);
  /// Ends with the line "result: ...", the last of the run.
  void end(const TrainingState& state, const Sums& test, const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void line(const std::string& text);
  void metric(const char* event, boost::json::object fields);
  double done(const TrainingState& state) const;
  std::string eta(const TrainingState& state) const;
  std::string quality(const Sums& sums) const;

  const Options& options_;
  int ranks_;
  bool tokens_;
  std::uint64_t pass_samples_;
  bool terminal_ = false;
  bool line_open_ = false;
  std::unique_ptr<std::FILE, CloseFile> metrics_;
  bool metrics_failed_ = false;
  Clock::time_point started_ = Clock::now();
  // Training alone, without evaluations and checkpoints.
  double training_seconds_ = 0;
  std::uint64_t trained_samples_ = 0;
  Clock::time_point step_started_ = Clock::now();
  // Since the last line.
  Clock::time_point shown_{};
  double interval_seconds_ = 0;
  std::uint64_t interval_samples_ = 0;
  std::uint64_t samples_before_ = 0;
  std::int64_t interval_steps_ = 0;
  Sums interval_;
  double first_done_ = 0;
};

}  // namespace bellows::trainer
