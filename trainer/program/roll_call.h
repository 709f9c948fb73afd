// SPDX-License-Identifier: Apache-2.0
// Whether all ranks of a program make the same collective calls: otherwise one would add what
// another has meant for something else, or wait for ever.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/team/team.h"

namespace bellows::trainer {

/// kBackward: of a step's last pass.
enum class Call : std::size_t { kBackward, kBatch, kEpoch, kSum, kEvaluated, kEnd };
inline constexpr std::size_t kCalls = 6;

/// To be called by each rank before the collectives of such a call; `values` that sum() has got.
/// Returns at once. Where the ranks differ, the next collectives throw a SharedError on all of them
/// that says who has done what `after` so many steps; as does to wait for what is returned.
c10::intrusive_ptr<c10d::Work> call_roll(Team& team, Call call, std::size_t values,
                                         std::int64_t after);

}  // namespace bellows::trainer
