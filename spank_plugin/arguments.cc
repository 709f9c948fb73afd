// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/arguments.h"

#include <charconv>
#include <string_view>

namespace bellows::spank {
namespace {

/// A row of the table of arguments. `parse` returns false when the value is no good.
struct Argument {
  std::string_view name;
  std::string_view values;
  std::string_view help;
  bool (*parse)(std::string_view value, Arguments& arguments);
};

bool parse_cleanup(std::string_view value, Arguments& arguments) {
  arguments.cleanup = value == "yes";
  return value == "yes" || value == "no";
}

bool parse_folders(std::string_view value, Arguments& arguments) {
  arguments.folders.clear();
  while (!value.empty()) {
    const std::string_view folder = value.substr(0, value.find(':'));
    if (folder.empty() || folder.front() != '/') return false;
    arguments.folders.emplace_back(folder);
    value.remove_prefix(std::min(value.size(), folder.size() + 1));
  }
  return !arguments.folders.empty();
}

bool parse_cleanup_seconds(std::string_view value, Arguments& arguments) {
  const char* end = value.data() + value.size();
  const auto [parsed, error] = std::from_chars(value.data(), end, arguments.cleanup_seconds);
  return error == std::errc() && parsed == end && arguments.cleanup_seconds >= 1 &&
         arguments.cleanup_seconds <= 600;
}

constexpr Argument kArguments[] = {
    {"cleanup", "yes|no", "remove what a dead job left on its nodes (default yes)", parse_cleanup},
    {"folders", "/DIR[:/DIR]...", "where jobs make their folders (default /tmp:/dev/shm)",
     parse_folders},
    {"cleanup_seconds", "1..600", "limit for the cleaning after one job (default 20)",
     parse_cleanup_seconds},
};

std::string known_names() {
  std::string names;
  for (const Argument& argument : kArguments) {
    if (!names.empty()) names += ", ";
    names += argument.name;
  }
  return names;
}

void parse_word(std::string_view word, Arguments& arguments) {
  const std::string_view name = word.substr(0, word.find('='));
  const std::string_view value = name.size() < word.size() ? word.substr(name.size() + 1) : "";
  for (const Argument& argument : kArguments) {
    if (argument.name != name) continue;
    if (argument.parse(value, arguments)) return;
    throw ArgumentError("argument '" + std::string(word) + "': use " + std::string(name) + "=" +
                        std::string(argument.values));
  }
  throw ArgumentError("unknown argument '" + std::string(word) + "' (known: " + known_names() +
                      ")");
}

}  // namespace

Arguments parse_arguments(const std::vector<std::string>& words) {
  Arguments arguments;
  for (const std::string& word : words) parse_word(word, arguments);
  return arguments;
}

std::string arguments_help() {
  std::string text;
  for (const Argument& argument : kArguments) {
    text.append(argument.name).append("=").append(argument.values).append("  ");
    text.append(argument.help).append("\n");
  }
  return text;
}

}  // namespace bellows::spank
