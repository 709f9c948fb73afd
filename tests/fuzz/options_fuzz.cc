// SPDX-License-Identifier: Apache-2.0
// Everything of the Slurm plugin that reads what others wrote: the values of its options, its line
// in plugstack.conf, and the command line that it stands on. The first byte says which.
#include <optional>
#include <string>
#include <vector>

#include "spank_plugin/arguments.h"
#include "spank_plugin/checks.h"
#include "spank_plugin/command_line.h"
#include "spank_plugin/options.h"
#include "tests/fuzz/target.h"

namespace bellows::spank {
namespace {

using fuzz::is_refused;
using fuzz::require;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// Nothing that a shell, a terminal or a reader of variables would take for more than text.
bool is_harmless(std::string_view text) {
  return text.size() <= 2 * kLongestValue &&
         text.find_first_of("$`\\\"'<>{}~#?\n\r\t \x7f") == std::string_view::npos &&
         text.find('\0') == std::string_view::npos;
}

void try_value(const Option& option, const std::string& text) {
  std::string normal;
  try {
    normal = parse_option(option, text.c_str());
  } catch (const ValueError& error) {
    const std::string message = error.what();
    require(message.size() < 2000, "a message is of bearable length");
    require(message.find_first_of("\n\r\x1b") == std::string::npos, "a message is one line");
    return;
  }
  require(is_harmless(normal), "an accepted value is harmless");
  require(parse_option(option, normal.c_str()) == normal, "the normal form stays as it is");
}

void try_bounds(const std::string& text, const Arguments& arguments) {
  is_refused<ValueError>([&] {
    const Bounds bounds = parse_bounds(text);
    require(1 <= bounds.least && bounds.least <= bounds.most && bounds.step >= 1,
            "bounds are in order");
    const Admitted admitted = admit(bounds, StartedJob{bounds.most, "p"}, arguments);
    require(!admitted.bounds || admitted.bounds->most <= node_limit(arguments, "p"),
            "limits are kept");
  });
}

void try_arguments(std::string_view text) {
  is_refused<ArgumentError>([&] {
    const Arguments arguments = parse_arguments(split(text, ' '));
    require(arguments.max_nodes >= 1, "there is a limit");
    for (const std::string& folder : arguments.folders)
      require(folder.starts_with('/'), "folders are absolute");
    try_bounds("1-100", arguments);
  });
}

void try_command_line(std::string_view text, std::optional<std::size_t> end) {
  const CommandLine line(split(text, '\0'), end);
  if (const auto nodes = line.nodes())
    require(0 <= nodes->min && nodes->min <= nodes->max, "numbers of nodes are in order");
  GivenOptions given;
  given.set(OptionId::elastic, "1-4");
  const Submission submission{
      .makes_job = !line.job(), .nodes = line.nodes(), .partitions = line.partition()};
  is_refused<ValueError>([&] { check_submission(given, submission, Arguments{}); });
  (void)line.describes_elastic_job();
  (void)line.no_kill();
}

}  // namespace
}  // namespace bellows::spank

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bellows::spank;
  if (size == 0) return 0;
  const std::string_view text = bellows::fuzz::text_of(data + 1, size - 1);
  const std::size_t what = data[0] % (kOptionCount + 4);
  if (what < kOptionCount) try_value(option_table()[what], std::string(text));
  if (what == kOptionCount) try_bounds(std::string(text), Arguments{});
  if (what == kOptionCount + 1) try_arguments(text);
  if (what == kOptionCount + 2) try_command_line(text, std::nullopt);
  if (what == kOptionCount + 3) try_command_line(text, size % 8);
  return 0;
}
