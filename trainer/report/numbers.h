// SPDX-License-Identifier: Apache-2.0
// Numbers for people.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace bellows::report {

/// Four digits that count; "-" for what is not known.
inline std::string format_number(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  return size >= 1e3 && size < 1e9 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

}  // namespace bellows::report
