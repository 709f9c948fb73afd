// SPDX-License-Identifier: Apache-2.0
// The command line of the sbatch, salloc or srun that has loaded the plugin. Slurm tells a plugin
// nothing of other options than its own, so what has to be known of them is read here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bellows::spank {

/// An option as it stands on the command line.
struct Word {
  std::string name;   ///< without dashes: one letter, or the long name as it was written
  std::string value;  ///< "" if there is none
};

/// How many nodes a job asks for.
struct NodeRange {
  int min = 1;
  int max = 1;
};

class CommandLine {
 public:
  CommandLine() = default;
  /// `words` without the program's name. They are read as getopt does, up to the first that is
  /// neither an option nor the value of one. `end`, if known, is how many words getopt has taken.
  explicit CommandLine(std::span<const std::string> words,
                       std::optional<std::size_t> end = std::nullopt);

  /// The value of the last option of this letter (0: none) or long name; `shortest` letters of the
  /// name are enough, as for getopt.
  std::optional<std::string> value(char letter, std::string_view name, std::size_t shortest) const;
  /// Whether one of the plugin's options that describe a job is there.
  bool describes_elastic_job() const;

  /// -N, if it is there in a form that is understood.
  std::optional<NodeRange> nodes() const;
  /// -p: names of partitions with commas in between.
  std::optional<std::string> partition() const { return value('p', "partition", 4); }
  /// srun's --jobid.
  std::optional<std::string> job() const { return value(0, "jobid", 4); }
  /// srun's --het-group.
  std::optional<std::string> het_group() const { return value(0, "het-group", 3); }
  /// -k: "" (or "set"), "off", "no".
  std::optional<std::string> no_kill() const { return value('k', "no-kill", 4); }

 private:
  std::vector<Word> words_;
};

/// N, N-M or N- with Slurm's suffixes k and m; nothing if it is none of these.
std::optional<NodeRange> parse_node_range(std::string_view text);

/// The words of this process's command line, the program's name first; empty if they cannot be
/// read or are more than 4 MiB.
std::vector<std::string> own_command_line();

}  // namespace bellows::spank
