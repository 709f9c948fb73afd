// SPDX-License-Identifier: Apache-2.0
// Figures and tables of how a run went: the world and the training over time.
#pragma once

#include <optional>
#include <vector>

#include "trainer/report/figure.h"
#include "trainer/report/run.h"

namespace bellows::report {

/// Those of them for which the runs have numbers.
std::vector<Figure> course_figures(const std::vector<Run>& runs);

/// Each change of the world.
Table change_table(const std::vector<Run>& runs);
/// What bellows-run has told.
Table event_table(const std::vector<Run>& runs);

}  // namespace bellows::report
