// SPDX-License-Identifier: Apache-2.0
// Times as checkpoints record them: UTC to the microsecond, text that sorts as time does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bellows::checkpoint {

/// Microseconds since 1970 to "2026-01-31T12:00:00.123456Z". Years 0 to 9999.
std::string timestamp(std::int64_t micros);
/// nullopt when `text` is not exactly of that form.
std::optional<std::int64_t> parse_timestamp(const std::string& text);

}  // namespace bellows::checkpoint
