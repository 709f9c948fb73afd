// SPDX-License-Identifier: Apache-2.0
// Waits until a program has made enough steps with its present number of ranks, and sees that they
// get into a file of metrics, which bellows-report reads.
#pragma once

#include <fstream>
#include <memory>
#include <string>

#include "trainer/bench/job.h"
#include "trainer/bench/options.h"

namespace bellows::bench {

class Measure {
 public:
  virtual ~Measure() = default;
  /// Returns when so many steps of `ranks` ranks are in the file. Throws BenchError when they are
  /// not by `deadline`, or the job ends.
  virtual void size(Job& job, int ranks, Job::Clock::time_point deadline) = 0;
};

/// bellows-train, which writes its own metrics.
class TrainerMeasure : public Measure {
 public:
  TrainerMeasure(const Options& options, std::string file);
  void size(Job& job, int ranks, Job::Clock::time_point deadline) override;

 private:
  int count(int ranks);
  void mark(const char* event);

  const Options& options_;
  std::string file_;
  std::ifstream in_;
  std::string rest_;  // a line of which the end is not there yet
};

/// Any program that tells how far it is: its progress is looked at, and written down.
class ProgressMeasure : public Measure {
 public:
  ProgressMeasure(const Options& options, const std::string& file);
  void size(Job& job, int ranks, Job::Clock::time_point deadline) override;

 private:
  void begin_size(int ranks, std::int64_t step);

  const Options& options_;
  std::ofstream out_;
  int ranks_ = 0;  // of the last size
};

std::unique_ptr<Measure> make_measure(const Options& options, const std::string& file);

}  // namespace bellows::bench
