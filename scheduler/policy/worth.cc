// SPDX-License-Identifier: Apache-2.0
#include "scheduler/policy/worth.h"

#include <utility>

namespace bellows::scheduler {
namespace {

/// Samples per second with `nodes`, and with `more` beside them.
std::optional<std::pair<double, double>> measured(const std::map<int, Speed>& speeds, int nodes,
                                                  int more) {
  const auto less = speeds.find(nodes), all = speeds.find(nodes + more);
  if (less == speeds.end() || all == speeds.end() || less->second.samples_per_second <= 0) {
    return std::nullopt;
  }
  return std::pair(less->second.samples_per_second, all->second.samples_per_second);
}

}  // namespace

bool gains(const std::optional<SizeHints>& hints, const std::map<int, Speed>& speeds, int nodes,
           int more) {
  if (!hints) return true;
  if (const auto seen = measured(speeds, nodes, more)) return seen->second > seen->first;
  return nodes + more <= hints->best_nodes;
}

std::optional<bool> pays(const std::optional<SizeHints>& hints, const std::map<int, Speed>& speeds,
                         int nodes, int more, double least_gain, double slack) {
  if (!hints || nodes < 1) return std::nullopt;
  if (const auto seen = measured(speeds, nodes, more)) {
    const auto [slow, fast] = *seen;
    return (fast - slow) / more / (slow / nodes) >= slack * least_gain;
  }
  if (least_gain != kEconomicGain) return std::nullopt;
  return nodes + more <= hints->economic_nodes;
}

int gaining_size(const std::optional<SizeHints>& hints, const std::map<int, Speed>& speeds,
                 const Bounds& bounds, int nodes, int target) {
  while (nodes < target) {
    const int next = allowed_size(bounds, nodes + bounds.step);
    if (next <= nodes || next > target || !gains(hints, speeds, nodes, next - nodes)) break;
    nodes = next;
  }
  return nodes;
}

}  // namespace bellows::scheduler
