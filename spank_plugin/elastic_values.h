// SPDX-License-Identifier: Apache-2.0
// The values of the elastic options, from the text that a user gave. Everything here takes any
// bytes: it either returns the value in its one normal form or throws ValueError.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace bellows::spank {

/// A value that cannot be taken; what() says why.
struct ValueError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Longer values are refused unread: the environment, and plugstack.conf, are read by others too.
inline constexpr std::size_t kLongestValue = 2048;
/// Slurm's own limit.
inline constexpr int kMostNodes = 65536;
/// Seconds: a day.
inline constexpr int kLongestGrace = 86'400;
inline constexpr int kLongestWait = 86'400;

/// How many nodes a job may have: `min`, `min + step`, … up to `max`.
struct Bounds {
  int min = 1;
  int max = 1;
  int step = 1;

  bool hold(int nodes) const { return min <= nodes && nodes <= max; }
  /// MIN-MAX, and :STEP where it is not 1.
  std::string text() const;
};

/// A whole number from `least` to `most`, digits only.
int parse_number(std::string_view text, int least, int most);

/// N or MIN-MAX, either with :STEP.
Bounds parse_bounds(std::string_view text);
/// turbo, economic or manual.
std::string parse_mode(std::string_view text);
/// NAME=VALUE with commas in between; names of small letters, digits, - and _, each once; values
/// without spaces, quotes, commas or anything that a shell might take for more than text.
std::string parse_policy_args(std::string_view text);
/// Companion allocations, with ; in between: KEY=VALUE with commas in between. Keys, each once:
/// partition, qos, features (constraint is another name for it), gres, max (nodes).
std::string parse_companions(std::string_view text);
/// N, +N or -N nodes, or Slurm's list of nodes.
std::string parse_resize(std::string_view text);

/// `text` for a message: shortened, and without what a terminal would obey.
std::string printable(std::string_view text);

}  // namespace bellows::spank
