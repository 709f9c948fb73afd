// SPDX-License-Identifier: Apache-2.0
// Whether a job would make something of further nodes: as measured, where both sizes were; else as
// the job predicts itself. A job that says nothing is believed to gain from every node.
#pragma once

#include <map>
#include <optional>

#include "protocol/size_hints.h"
#include "scheduler/policy/policy.h"

namespace bellows::scheduler {

/// Whether it would be faster with `more` nodes beside its `nodes`.
bool gains(const std::optional<SizeHints>& hints, const std::map<int, Speed>& speeds, int nodes,
           int more);

/// Whether each of these would bring `least_gain` of the mean of the others; `slack` times that is
/// enough where it was measured. Nothing where the job does not say, or says it for another
/// least_gain (it does for kEconomicGain).
std::optional<bool> pays(const std::optional<SizeHints>& hints, const std::map<int, Speed>& speeds,
                         int nodes, int more, double least_gain, double slack = 1);

/// From `nodes` on unit by unit, the largest size up to `target` that gains.
int gaining_size(const std::optional<SizeHints>& hints, const std::map<int, Speed>& speeds,
                 const Bounds& bounds, int nodes, int target);

}  // namespace bellows::scheduler
