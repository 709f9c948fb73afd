// SPDX-License-Identifier: Apache-2.0
#include "protocol/elastic_values.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace bellows::protocol {
namespace {

constexpr std::size_t kMostCompanions = 16;
constexpr std::size_t kMostPolicyArgs = 64;

// Of ASCII, whatever the locale says.
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Not empty, and of letters, digits and `others` only.
bool is_word(std::string_view text, std::string_view others) {
  return !text.empty() && std::ranges::all_of(text, [others](char c) {
    return is_letter(c) || is_digit(c) || others.find(c) != std::string_view::npos;
  });
}

std::string quoted(std::string_view text) { return "'" + printable(text) + "'"; }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

struct Pair {
  std::string_view name;
  std::string_view value;
};

Pair parse_pair(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    throw ValueError(quoted(text) + " is not NAME=VALUE");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

/// A key of a companion allocation, and what its values are made of besides letters and digits.
struct CompanionKey {
  std::string_view name;
  std::string CompanionPlace::* value;
  std::string_view others;
};

constexpr CompanionKey kCompanionKeys[] = {
    {"partition", &CompanionPlace::partition, "._-"},
    {"qos", &CompanionPlace::qos, "._-"},
    {"features", &CompanionPlace::features, "._-&|!()[]*:"},
    {"gres", &CompanionPlace::gres, "._-:"},
    {"account", &CompanionPlace::account, "._-"},
};

CompanionPlace parse_companion(std::string_view text) {
  CompanionPlace place;
  for (const std::string_view item : split(text, ',')) {
    const Pair pair = parse_pair(item);
    const std::string_view name = pair.name == "constraint" ? "features" : pair.name;
    const auto twice = [&] {
      return ValueError(quoted(name) + " is there twice in " + quoted(text));
    };
    if (name == "max") {
      if (place.most) throw twice();
      place.most = parse_number(pair.value, 1, kMostNodes);
      continue;
    }
    const auto key = std::ranges::find(kCompanionKeys, name, &CompanionKey::name);
    if (key == std::end(kCompanionKeys))
      throw ValueError("unknown key " + quoted(pair.name) +
                       " (known: partition, qos, features, gres, account, max)");
    if (!(place.*key->value).empty()) throw twice();
    if (!is_word(pair.value, key->others))
      throw ValueError(quoted(pair.value) + " is no value of " + std::string(name));
    place.*key->value = pair.value;
  }
  return place;
}

std::string text_of(const CompanionPlace& place) {
  std::string normal;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!normal.empty()) normal += ',';
    normal.append(name).append("=").append(value);
  };
  for (const CompanionKey& key : kCompanionKeys)
    if (!(place.*key.value).empty()) add(key.name, place.*key.value);
  if (place.most) add("max", std::to_string(*place.most));
  return normal;
}

/// Names, numbers in brackets, commas: n1,n[3-5,7]. Slurm will say which of them there are.
bool is_node_list(std::string_view text) {
  if (text.empty() || !is_letter(text.front())) return false;
  bool in_brackets = false;
  char last = ',';
  for (const char c : text) {
    if (in_brackets) {
      if (!is_digit(c) && c != ',' && c != '-' && c != ']') return false;
      if (!is_digit(c) && !is_digit(last)) return false;
      in_brackets = c != ']';
    } else if (c == ',') {
      if (last == ',') return false;
    } else if (c == '[') {
      if (last == ',') return false;
      in_brackets = true;
    } else if (!is_word({&c, 1}, "._-")) {
      return false;
    }
    last = c;
  }
  return !in_brackets && last != ',';
}

}  // namespace

std::string Bounds::text() const {
  const std::string range = std::to_string(least) + "-" + std::to_string(most);
  return step == 1 ? range : range + ":" + std::to_string(step);
}

int parse_number(std::string_view text, int least, int most) {
  int number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [after, failed] = std::from_chars(begin, end, number);
  if (failed != std::errc() || after != end || !is_digit(text.front()) || number < least ||
      number > most)
    throw ValueError(quoted(text) + " is not a number from " + std::to_string(least) + " to " +
                     std::to_string(most));
  return number;
}

Bounds parse_bounds(std::string_view text) {
  Bounds bounds;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    bounds.step = parse_number(text.substr(colon + 1), 1, kMostNodes);
    text = text.substr(0, colon);
  }
  const std::size_t dash = text.find('-');
  bounds.least = parse_number(text.substr(0, dash), 1, kMostNodes);
  bounds.most = dash == std::string_view::npos ? bounds.least
                                               : parse_number(text.substr(dash + 1), 1, kMostNodes);
  if (bounds.least > bounds.most) throw ValueError("MIN is more than MAX");
  return bounds;
}

const char* text(ElasticMode mode) {
  switch (mode) {
    case ElasticMode::turbo:
      return "turbo";
    case ElasticMode::economic:
      return "economic";
    default:
      return "manual";
  }
}

ElasticMode parse_mode(std::string_view text) {
  for (const ElasticMode mode : {ElasticMode::manual, ElasticMode::turbo, ElasticMode::economic})
    if (text == protocol::text(mode)) return mode;
  throw ValueError(quoted(text) + " is no mode");
}

std::string parse_policy_args(std::string_view text) {
  std::vector<std::string_view> seen;
  for (const std::string_view item : split(text, ',')) {
    const Pair pair = parse_pair(item);
    const bool plain = std::ranges::none_of(pair.name, [](char c) { return c >= 'A' && c <= 'Z'; });
    if (!plain || !is_word(pair.name, "_-"))
      throw ValueError(quoted(pair.name) + " is no name (small letters, digits, - and _)");
    if (!is_word(pair.value, "._-+:/%@"))
      throw ValueError(quoted(pair.value) + " is no value (letters, digits and ._-+:/%@)");
    if (std::ranges::find(seen, pair.name) != seen.end())
      throw ValueError(quoted(pair.name) + " is there twice");
    seen.push_back(pair.name);
    if (seen.size() > kMostPolicyArgs)
      throw ValueError("more than " + std::to_string(kMostPolicyArgs) + " arguments");
  }
  return std::string(text);
}

std::vector<CompanionPlace> parse_companions(std::string_view text) {
  std::vector<CompanionPlace> companions;
  for (const std::string_view companion : split(text, ';')) {
    if (companions.size() == kMostCompanions)
      throw ValueError("more than " + std::to_string(kMostCompanions) + " allocations");
    companions.push_back(parse_companion(companion));
  }
  return companions;
}

std::string text(const std::vector<CompanionPlace>& companions) {
  std::string normal;
  for (const CompanionPlace& place : companions) {
    if (!normal.empty()) normal += ';';
    normal += text_of(place);
  }
  return normal;
}

std::string parse_resize(std::string_view text) {
  if (is_node_list(text)) return std::string(text);
  const bool change = text.starts_with('+') || text.starts_with('-');
  const int nodes = parse_number(text.substr(change ? 1 : 0), 1, kMostNodes);
  return (change ? std::string(1, text.front()) : std::string()) + std::to_string(nodes);
}

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string shown(text.substr(0, kLongest));
  // Bytes above ASCII are left: the user's own letters in UTF-8.
  for (char& c : shown)
    if ((c >= 0 && c < ' ') || c == '\x7f') c = '?';
  return text.size() > kLongest ? shown + "..." : shown;
}

}  // namespace bellows::protocol
