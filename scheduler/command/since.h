// SPDX-License-Identifier: Apache-2.0
// A moment of the past, as users write it.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace bellows::scheduler {

/// "90", "90s", "10m", "2h", "1d": so long before `now`. "14:05", "14:05:30": today, local time.
/// "2026-01-31", "2026-01-31T14:05", "2026-01-31T14:05:30": local time. "@1769868000": Unix time.
/// Returns Unix time in seconds; nothing when the text is none of these.
std::optional<double> parse_since(const std::string& text,
                                  std::chrono::system_clock::time_point now);

}  // namespace bellows::scheduler
