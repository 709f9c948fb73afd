// SPDX-License-Identifier: Apache-2.0
// Times as checkpoints record them.
#include "checkpoint/timestamp.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace bellows::checkpoint {
namespace {

constexpr std::int64_t kMicros = 1000000;

}  // namespace

std::string timestamp(std::int64_t micros) {
  const std::int64_t fraction = ((micros % kMicros) + kMicros) % kMicros;
  const std::time_t seconds = (micros - fraction) / kMicros;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", utc.tm_year + 1900,
                utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                static_cast<int>(fraction));
  return text.data();
}

std::optional<std::int64_t> parse_timestamp(const std::string& text) {
  std::tm utc{};
  int fraction = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%6dZ", &utc.tm_year, &utc.tm_mon,
                  &utc.tm_mday, &utc.tm_hour, &utc.tm_min, &utc.tm_sec, &fraction) != 7)
    return std::nullopt;
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  const std::int64_t micros = std::int64_t{::timegm(&utc)} * kMicros + fraction;
  if (timestamp(micros) != text) return std::nullopt;
  return micros;
}

}  // namespace bellows::checkpoint
