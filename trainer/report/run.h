// SPDX-License-Identifier: Apache-2.0
// One run as its files tell it: the lines of bellows-train --metrics and of bellows-run --events.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protocol/job_event.h"

namespace bellows::report {

// A number that the files do not have.
inline constexpr double kUnknown = NAN;

/// One line of metrics: a step, or the mean of several. Times are seconds since the run's first
/// line.
struct StepRecord {
  double time = 0;
  std::int64_t step = 0;
  std::int64_t steps = 1;  // that it is the mean of
  int ranks = 0;
  int nodes = 1;
  std::int64_t accumulation = 0;  // passes of a rank before its last
  double samples = kUnknown;      // since the start of the training
  double loss = kUnknown, accuracy = kUnknown, learning_rate = kUnknown, batch = kUnknown,
         gradient_norm = kUnknown, noise_scale = kUnknown;
  // Of the rank that has most, bytes; and the mean of the ranks, 0 to 1.
  double peak_memory = kUnknown, gpu_memory = kUnknown, gpu_utilisation = kUnknown;
  double mean_batch = kUnknown;  // of `steps`, some of which may end a pass with what is left of it
  double samples_per_second = kUnknown;
  double step_seconds = kUnknown;
  std::vector<std::pair<std::string, double>> parts = {};  // of step_seconds
  bool unmeasured = false;  // the machine was busy with something else
  bool redone = false;      // a run that was resumed has made this step once more

  /// Samples per step.
  double step_samples() const { return std::isfinite(mean_batch) ? mean_batch : batch; }
};

struct WorldRecord {
  double time = 0;
  std::int64_t step = 0;
  int ranks = 0;
  std::string cause;  // start, join, leave, repair, resume, end
  int joined = 0, left = 0;
  double standstill_seconds = 0;  // kUnknown, as `bytes` and `step` 0, where only events tell
  double bytes = 0;
};

struct EvaluationRecord {
  double time = 0;
  std::int64_t step = 0;
  double loss = kUnknown, accuracy = kUnknown, seconds = 0;
};

struct CheckpointRecord {
  double time = 0;
  std::int64_t step = 0;
  double seconds = 0;
};

struct Run {
  std::string name;
  std::string program;
  std::map<std::string, std::string> options = {};  // that decide the result
  std::string scaling = {};                         // "strong", "weak" or not said
  double began = kUnknown;                          // Unix time
  double seconds = 0;                               // from the first line to the last
  std::vector<StepRecord> steps = {};
  std::vector<WorldRecord> worlds = {};
  std::vector<EvaluationRecord> evaluations = {};
  std::vector<CheckpointRecord> checkpoints = {};
  std::vector<protocol::JobEvent> events = {};
  std::vector<std::string> notes = {};  // what could not be read, or was left out
};

}  // namespace bellows::report
