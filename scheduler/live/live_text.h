// SPDX-License-Identifier: Apache-2.0
// What `bellows top` shows of its jobs, as lines for people.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/live/live_jobs.h"

namespace bellows::scheduler {

/// How many characters fit beside each other and how many lines; nothing: as many as are needed.
struct TextSize {
  std::optional<std::size_t> columns, lines;
};

/// A line about all, notes, and a table. Where it is too narrow the last event is cut, then columns
/// are left out, those last that tell most; where it is too low the last line tells how many jobs
/// are not shown. Without control characters.
std::vector<std::string> live_text(const LiveRound& round, const TextSize& size);

}  // namespace bellows::scheduler
