// SPDX-License-Identifier: Apache-2.0
#include "protocol/elastic_settings.h"

#include <cstdlib>
#include <string_view>

namespace bellows::protocol {
namespace {

/// Hands the variable's text to `take`, if it is set. `form`: what it must look like.
template <class Take>
bool with(const char* name, const char* form, Take take) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return false;
  try {
    const std::string_view text = value;
    if (text.size() > kLongestValue) throw ValueError("is too long");
    take(text);
  } catch (const ValueError& error) {
    throw BadSetting(std::string(name) + "='" + printable(value) + "': " + error.what() +
                     "; must be " + form);
  }
  return true;
}

}  // namespace

std::optional<ElasticSettings> elastic_settings() {
  ElasticSettings settings;
  if (!with("BELLOWS_ELASTIC", "MIN-MAX or MIN-MAX:STEP nodes, such as 1-8 or 2-16:2",
            [&](std::string_view text) { settings.nodes = parse_bounds(text); })) {
    return std::nullopt;
  }
  with("BELLOWS_ELASTIC_MODE", "manual, turbo or economic",
       [&](std::string_view text) { settings.mode = parse_mode(text); });
  with("BELLOWS_ELASTIC_POLICY_ARGS", "NAME=VALUE with commas in between",
       [&](std::string_view text) { settings.policy_arguments = parse_policy_args(text); });
  with("BELLOWS_ELASTIC_GRACE", "from 0 to 86400 seconds", [&](std::string_view text) {
    settings.grace = std::chrono::seconds(parse_number(text, 0, kLongestGrace));
  });
  with("BELLOWS_ELASTIC_HET", "KEY=VALUE with commas in between, such as partition=spot,max=4",
       [&](std::string_view text) { settings.companions = parse_companions(text); });
  return settings;
}

}  // namespace bellows::protocol
