// SPDX-License-Identifier: Apache-2.0
// What the throughput model expects, as a table and as lines in figures.
#pragma once

#include <optional>
#include <vector>

#include "trainer/report/figure.h"
#include "trainer/report/scaling_figures.h"

namespace bellows::report {

/// Some of the sizes: those that were measured, powers of two, and the best ones.
Table prediction_table(const std::vector<NamedScaling>& all, const std::optional<Price>& price);
/// Over ranks; empty where nothing can be predicted. Values as in speedup_figure(),
/// efficiency_figure(), cost_figure().
enum class Predicted { speedup, efficiency, cost };
Series prediction_series(const NamedScaling& named, Predicted what, double scale = 1);

}  // namespace bellows::report
