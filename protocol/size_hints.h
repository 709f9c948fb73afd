// SPDX-License-Identifier: Apache-2.0
// What a training says of the size of its allocation: where it would do best, and what a node more
// or less would do to it. Predictions, of a model of its own. Plain data, without libraries.
#pragma once

#include <optional>

namespace bellows {

/// What a node must bring of what the mean of the others brings, to be worth its cost.
inline constexpr double kEconomicGain = 0.5;

/// Sizes in nodes, and the ranks that they have with as many on each node as now. Goodput: samples
/// per second, each counted for what it is worth compared with those of the base batch; where that
/// is not known, as one.
struct SizeHints {
  int best_nodes = 1;  // the fewest whose goodput is within 1 % of the most within the bounds
  int best_ranks = 1;
  int economic_nodes = 1;  // up to which each further node brings kEconomicGain
  int economic_ranks = 1;
  double goodput = 0;  // at the present size
  // Relative to that: of one node more what is gained (below 0: lost), of one less what is lost
  // (below 0: gained). Nothing where the bounds do not allow it.
  std::optional<double> gain_of_more;
  std::optional<double> loss_of_less;
  bool operator==(const SizeHints&) const = default;
};

}  // namespace bellows
