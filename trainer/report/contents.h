// SPDX-License-Identifier: Apache-2.0
// Makes a report out of runs.
#pragma once

#include <vector>

#include "trainer/report/figure.h"
#include "trainer/report/options.h"
#include "trainer/report/run.h"

namespace bellows::report {

/// Runs that say nothing about each other. `what()` says in what they differ.
class NotComparable : public UsageError {
  using UsageError::UsageError;
};

/// The scaling of each run that has had several sizes; of all together where each has had one, and
/// not all the same, or with `together`.
std::vector<NamedScaling> scalings_of(const std::vector<Run>& runs, const Options& options);

/// Throws NotComparable unless options.any_program.
Contents make_contents(const Options& options, const std::vector<Run>& runs,
                       const std::vector<NamedScaling>& scalings);

}  // namespace bellows::report
