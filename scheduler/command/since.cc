// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/since.h"

#include <charconv>
#include <cmath>
#include <ctime>
#include <initializer_list>
#include <string_view>

namespace bellows::scheduler {
namespace {

std::optional<double> number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, failed] = std::from_chars(text.data(), end, value);
  if (failed != std::errc() || after != end || !(value >= 0) || value > 1e11) return std::nullopt;
  return value;
}

std::optional<double> ago(std::string_view text) {
  double unit = 1;
  switch (text.empty() ? '\0' : text.back()) {
    case 's':
      break;
    case 'm':
      unit = 60;
      break;
    case 'h':
      unit = 3600;
      break;
    case 'd':
      unit = 86'400;
      break;
    default:
      return number(text);
  }
  text.remove_suffix(1);
  const auto count = number(text);
  return count ? std::optional(*count * unit) : std::nullopt;
}

// The whole text, with fields that a calendar has.
std::optional<double> local(const std::string& text, const char* format, std::tm parts) {
  const char* const end = strptime(text.c_str(), format, &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  parts.tm_isdst = -1;
  const std::tm asked = parts;
  const std::time_t moment = std::mktime(&parts);
  if (moment == -1 || parts.tm_mday != asked.tm_mday) return std::nullopt;  // February 30th
  return static_cast<double>(moment);
}

}  // namespace

std::optional<double> parse_since(const std::string& text,
                                  std::chrono::system_clock::time_point now) {
  const double present = std::chrono::duration<double>(now.time_since_epoch()).count();
  if (text.starts_with('@')) return number(std::string_view(text).substr(1));
  if (const auto seconds = ago(text)) return present - *seconds;
  const std::time_t whole = std::chrono::system_clock::to_time_t(now);
  std::tm today{};
  if (localtime_r(&whole, &today) == nullptr) return std::nullopt;
  today.tm_hour = today.tm_min = today.tm_sec = 0;
  for (const char* format :
       {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%H:%M:%S", "%H:%M"}) {
    if (const auto moment = local(text, format, today)) return moment;
  }
  return std::nullopt;
}

}  // namespace bellows::scheduler
