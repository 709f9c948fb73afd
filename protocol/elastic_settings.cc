// SPDX-License-Identifier: Apache-2.0
#include "protocol/elastic_settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace bellows::protocol {
namespace {

constexpr int kMostNodes = 100'000;
constexpr int kLongestGrace = 86'400;

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::optional<int> whole_number(std::string_view text, int least, int most) {
  int value = 0;
  const auto [after, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || after != text.data() + text.size()) return std::nullopt;
  if (value < least || value > most) return std::nullopt;
  return value;
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t at = 0; at != std::string::npos; start = at + 1) {
    at = text.find(separator, start);
    parts.push_back(text.substr(start, at == std::string::npos ? at : at - start));
  }
  return parts;
}

CompanionPlace companion(const std::string& text) {
  const auto wrong = [&](const std::string& why) {
    return BadSetting("BELLOWS_ELASTIC_HET: '" + text + "': " + why);
  };
  CompanionPlace place;
  for (const std::string& part : parts_of(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals + 1 == part.size()) {
      throw wrong("must be NAME=VALUE with commas in between, such as partition=spot,max=4");
    }
    const std::string name = part.substr(0, equals), value = part.substr(equals + 1);
    if (name == "partition") {
      place.partition = value;
    } else if (name == "qos") {
      place.qos = value;
    } else if (name == "features" || name == "constraint") {
      place.features = value;
    } else if (name == "gres") {
      place.gres = value;
    } else if (name == "account") {
      place.account = value;
    } else if (name == "max") {
      place.most = whole_number(value, 1, kMostNodes);
      if (!place.most) throw wrong("max must be a number of nodes, from 1 to 100000");
    } else {
      throw wrong("there is no '" + name +
                  "': partition, qos, features, gres, account, max are known");
    }
  }
  return place;
}

}  // namespace

void parse_elastic(const std::string& text, ElasticSettings& into) {
  const BadSetting wrong("BELLOWS_ELASTIC='" + text +
                         "': must be MIN-MAX or MIN-MAX:STEP nodes, such as 1-8 or 2-16:2");
  const std::size_t colon = text.find(':');
  const std::string range = text.substr(0, colon);
  const std::size_t dash = range.find('-');
  const auto least = whole_number(range.substr(0, dash), 1, kMostNodes);
  const auto most =
      dash == std::string::npos ? least : whole_number(range.substr(dash + 1), 1, kMostNodes);
  const auto step = colon == std::string::npos
                        ? std::optional<int>(1)
                        : whole_number(text.substr(colon + 1), 1, kMostNodes);
  if (!least || !most || !step || *least > *most) throw wrong;
  into.least = *least;
  into.most = *most;
  into.step = *step;
}

ElasticMode parse_elastic_mode(const std::string& text) {
  if (text == "manual") return ElasticMode::manual;
  if (text == "turbo") return ElasticMode::turbo;
  if (text == "economic") return ElasticMode::economic;
  throw BadSetting("BELLOWS_ELASTIC_MODE='" + text + "': must be manual, turbo or economic");
}

std::vector<CompanionPlace> parse_companions(const std::string& text) {
  std::vector<CompanionPlace> places;
  for (const std::string& part : parts_of(text, ';')) {
    if (!part.empty()) places.push_back(companion(part));
  }
  return places;
}

std::optional<ElasticSettings> elastic_settings() {
  const char* range = variable("BELLOWS_ELASTIC");
  if (range == nullptr) return std::nullopt;
  ElasticSettings settings;
  parse_elastic(range, settings);
  if (const char* mode = variable("BELLOWS_ELASTIC_MODE")) settings.mode = parse_elastic_mode(mode);
  if (const char* arguments = variable("BELLOWS_ELASTIC_POLICY_ARGS")) {
    settings.policy_arguments = arguments;
  }
  if (const char* grace = variable("BELLOWS_ELASTIC_GRACE")) {
    const auto seconds = whole_number(grace, 0, kLongestGrace);
    if (!seconds) {
      throw BadSetting(std::string("BELLOWS_ELASTIC_GRACE='") + grace +
                       "': must be from 0 to 86400 seconds");
    }
    settings.grace = std::chrono::seconds(*seconds);
  }
  if (const char* places = variable("BELLOWS_ELASTIC_HET")) {
    settings.companions = parse_companions(places);
  }
  return settings;
}

}  // namespace bellows::protocol
