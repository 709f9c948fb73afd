// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/arguments.h"

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
  arguments.cleanup_seconds = parse_number(value, 1, 600);
  return true;
}

bool parse_bellows(std::string_view value, Arguments& arguments) {
  arguments.bellows = value;
  return value.starts_with('/');
}

bool parse_default_mode(std::string_view value, Arguments& arguments) {
  arguments.mode = text(parse_mode(value));
  return true;
}

bool parse_default_grace(std::string_view value, Arguments& arguments) {
  arguments.grace = parse_number(value, 0, kLongestGrace);
  return true;
}

bool parse_max_nodes(std::string_view value, Arguments& arguments) {
  arguments.max_nodes = parse_number(value, 1, kMostNodes);
  return true;
}

bool parse_partition_max(std::string_view value, Arguments& arguments) {
  arguments.partition_max.clear();
  while (!value.empty()) {
    const std::string_view item = value.substr(0, value.find(','));
    const std::size_t colon = item.rfind(':');
    if (colon == std::string_view::npos || colon == 0) return false;
    const int nodes = parse_number(item.substr(colon + 1), 1, kMostNodes);
    if (!arguments.partition_max.emplace(item.substr(0, colon), nodes).second) return false;
    value.remove_prefix(item.size());
    if (value == ",") return false;
    if (!value.empty()) value.remove_prefix(1);
  }
  return !arguments.partition_max.empty();
}

constexpr Argument kArguments[] = {
    {"cleanup", "yes|no", "remove what a dead job left on its nodes (default yes)", parse_cleanup},
    {"folders", "/DIR[:/DIR]...", "where jobs make their folders (default /tmp:/dev/shm)",
     parse_folders},
    {"cleanup_seconds", "1..600", "limit for the cleaning after one job (default 20)",
     parse_cleanup_seconds},
    {"bellows", "/PATH", "the program that srun --elastic-resize calls", parse_bellows},
    {"mode", "turbo|economic|manual", "the mode of jobs that name none (default manual)",
     parse_default_mode},
    {"grace", "0..86400", "the grace, in seconds, of jobs that name none (default none)",
     parse_default_grace},
    {"max_nodes", "1..65536", "the most nodes that --elastic may ask for (default 65536)",
     parse_max_nodes},
    {"partition_max", "NAME:N[,NAME:N]...", "the same for single partitions", parse_partition_max},
};

/// A value that its parser refuses in either way.
bool parse_value(const Argument& argument, std::string_view value, Arguments& arguments) {
  try {
    return argument.parse(value, arguments);
  } catch (const ValueError&) {
    return false;
  }
}

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
    if (parse_value(argument, value, arguments)) return;
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
