// SPDX-License-Identifier: Apache-2.0
// What a run comes to, in a few numbers.
#pragma once

#include <optional>
#include <vector>

#include "trainer/report/figure.h"
#include "trainer/report/run.h"
#include "trainer/report/scaling_figures.h"

namespace bellows::report {

struct Summary {
  std::int64_t steps = 0;   // that count, at the end
  std::int64_t redone = 0;  // steps that were lost and made again
  double samples = kUnknown;
  int fewest_ranks = 0, most_ranks = 0;
  // Seconds, of the whole run and what they were used for: kUnknown where only events tell.
  double seconds = 0, training = 0, standstill = 0, evaluations = 0, checkpoints = 0;
  double rank_hours = 0;                         // ranks times time, to the end of the run
  double samples_per_second = kUnknown;          // while training
  double samples_per_second_overall = kUnknown;  // of all the time
  double loss = kUnknown;                        // of the last steps
  double test_loss = kUnknown, test_accuracy = kUnknown;
  double peak_memory = kUnknown, gpu_memory = kUnknown;  // bytes of the rank that had most
  double gpu_utilisation = kUnknown;                     // mean over the steps
  int joins = 0, leaves = 0, repairs = 0;
};

Summary summary_of(const Run& run);

/// A column for each run.
Table summary_table(const std::vector<Run>& runs, const std::optional<Price>& price);

}  // namespace bellows::report
