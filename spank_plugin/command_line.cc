// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace bellows::spank {
namespace {

constexpr std::size_t kLongestCommandLine = std::size_t{4} << 20;

// Options of sbatch, salloc and srun that take no value, or take it in the same word only (Slurm
// 22.05 to 26.05). The next word after any other is its value.
constexpr std::string_view kFlagLetters = "EHOQVXZhlsuv?";
constexpr std::string_view kLettersWithValueInWord = "IKk";
constexpr std::string_view kFlags[] = {"async",
                                       "bcast",
                                       "bell",
                                       "compress",
                                       "consolidate-segments",
                                       "contiguous",
                                       "debugger-test",
                                       "disable-status",
                                       "elastic-wait",
                                       "exact",
                                       "exclusive",
                                       "external",
                                       "external-launcher",
                                       "get-user-env",
                                       "help",
                                       "hold",
                                       "ignore-pbs",
                                       "immediate",
                                       "interactive",
                                       "kill-command",
                                       "kill-on-bad-exit",
                                       "label",
                                       "multi-prog",
                                       "nice",
                                       "no-allocate",
                                       "no-bell",
                                       "no-kill",
                                       "no-requeue",
                                       "no-shell",
                                       "oom-kill-step",
                                       "overcommit",
                                       "overlap",
                                       "oversubscribe",
                                       "parsable",
                                       "preserve-env",
                                       "propagate",
                                       "pty",
                                       "quiet",
                                       "quit-on-interrupt",
                                       "reboot",
                                       "requeue",
                                       "resv-ports",
                                       "send-libs",
                                       "spread-job",
                                       "spread-segments",
                                       "stepmgr",
                                       "test-only",
                                       "unbuffered",
                                       "usage",
                                       "use-min-nodes",
                                       "verbose",
                                       "version",
                                       "whole",
                                       "x11"};

bool is_flag(std::string_view name) {
  // An abbreviation is taken for the first flag that it can mean.
  return std::ranges::any_of(kFlags, [name](std::string_view flag) { return flag == name; }) ||
         (name.size() >= 3 && std::ranges::any_of(kFlags, [name](std::string_view flag) {
            return flag.starts_with(name);
          }));
}

/// -W and --wait are a flag of sbatch and take seconds in srun and salloc.
bool is_wait(std::string_view name) { return name == "W" || name == "wait"; }
bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool contains(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

std::optional<int> leading_number(std::string_view& text) {
  int number = 0;
  const char* const begin = text.data();
  const auto [after, failed] = std::from_chars(begin, begin + text.size(), number);
  if (failed != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(after - begin));
  int factor = 1;
  if (text.starts_with('k') || text.starts_with('K')) factor = 1024;
  if (text.starts_with('m') || text.starts_with('M')) factor = 1024 * 1024;
  if (factor != 1) text.remove_prefix(1);
  if (number > 1'000'000'000 / factor) return std::nullopt;
  return number * factor;
}

}  // namespace

CommandLine::CommandLine(std::span<const std::string> words, std::optional<std::size_t> end) {
  const std::size_t count = std::min(words.size(), end.value_or(words.size()));
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view word = words[i];
    if (word.size() < 2 || word.front() != '-' || word == "--") return;
    const auto next = [&](std::string_view name) {
      if (i + 1 >= count || (is_wait(name) && !is_number(words[i + 1]))) return std::string();
      return words[++i];
    };
    if (word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      const std::string name(word.substr(2, equals == word.npos ? word.npos : equals - 2));
      if (equals != word.npos)
        words_.push_back({name, std::string(word.substr(equals + 1))});
      else
        words_.push_back({name, is_flag(name) ? std::string() : next(name)});
      continue;
    }
    for (std::size_t at = 1; at < word.size(); ++at) {
      const char letter = word[at];
      const std::string rest(word.substr(at + 1));
      if (contains(kFlagLetters, letter)) {
        words_.push_back({std::string(1, letter), ""});
        continue;
      }
      const bool in_word = contains(kLettersWithValueInWord, letter) || !rest.empty();
      words_.push_back({std::string(1, letter), in_word ? rest : next(word.substr(at, 1))});
      break;
    }
  }
}

std::optional<std::string> CommandLine::value(char letter, std::string_view name,
                                              std::size_t shortest) const {
  std::optional<std::string> found;
  for (const Word& word : words_) {
    const bool by_letter = letter != 0 && word.name.size() == 1 && word.name[0] == letter;
    if (by_letter || (word.name.size() >= shortest && name.starts_with(word.name)))
      found = word.value;
  }
  return found;
}

bool CommandLine::describes_elastic_job() const {
  return std::ranges::any_of(words_, [](const Word& word) {
    return word.name.starts_with("elastic") && !word.name.starts_with("elastic-r") &&
           !word.name.starts_with("elastic-w");
  });
}

std::optional<NodeRange> CommandLine::nodes() const {
  const std::optional<std::string> text = value('N', "nodes", 5);
  return text ? parse_node_range(*text) : std::nullopt;
}

std::optional<NodeRange> parse_node_range(std::string_view text) {
  const std::optional<int> least = leading_number(text);
  if (!least) return std::nullopt;
  if (text.empty()) return NodeRange{*least, *least};
  if (text == "-") return NodeRange{*least, *least};
  if (!text.starts_with('-')) return std::nullopt;
  text.remove_prefix(1);
  const std::optional<int> most = leading_number(text);
  if (!most || !text.empty() || *most < *least) return std::nullopt;
  return NodeRange{*least, *most};
}

std::vector<std::string> own_command_line() {
  std::string text;
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char buffer[4096];
  ssize_t size = 0;
  while (text.size() <= kLongestCommandLine && (size = read(fd, buffer, sizeof buffer)) > 0)
    text.append(buffer, static_cast<std::size_t>(size));
  close(fd);
  if (size != 0) return {};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace bellows::spank
