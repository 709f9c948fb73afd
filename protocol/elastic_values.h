// SPDX-License-Identifier: Apache-2.0
// What an elastic job is told on the command line, in the environment (elastic_settings.h) or by an
// administrator: one parser for each value, for whoever reads it. Everything here takes any bytes:
// it returns the value or throws ValueError. It needs nothing but the standard library, since the
// plugin brings it into Slurm's own processes.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bellows::protocol {

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

/// How many nodes a job may have: `least`, `least + step`, … up to `most`, and `most`.
struct Bounds {
  int least = 1;
  int most = kMostNodes;
  int step = 1;

  bool hold(int nodes) const { return least <= nodes && nodes <= most; }
  /// LEAST-MOST, and :STEP where it is not 1.
  std::string text() const;
};

enum class ElasticMode {
  manual,    // only requests change the size
  turbo,     // grows into idle nodes, and gives them back when a pending job could start
  economic,  // as turbo, but only while more nodes pay
};
const char* text(ElasticMode mode);

/// Where nodes may come from that the job's own allocation cannot grow into.
struct CompanionPlace {
  std::string partition, qos, features, gres, account;  // "": as the job itself
  std::optional<int> most;                              // nodes
};

/// A whole number from `least` to `most`, digits only.
int parse_number(std::string_view text, int least, int most);

/// N or MIN-MAX, either with :STEP.
Bounds parse_bounds(std::string_view text);
/// turbo, economic or manual.
ElasticMode parse_mode(std::string_view text);
/// NAME=VALUE with commas in between; names of small letters, digits, - and _, each once; values
/// without spaces, quotes, commas or anything that a shell might take for more than text. Returns
/// it.
std::string parse_policy_args(std::string_view text);
/// Companion allocations, with ; in between: KEY=VALUE with commas in between. Keys, each once:
/// partition, qos, features (constraint is another name for it), gres, account, max (nodes).
std::vector<CompanionPlace> parse_companions(std::string_view text);
/// As parse_companions takes it, in its one normal form.
std::string text(const std::vector<CompanionPlace>& companions);
/// N, +N or -N nodes, or Slurm's list of nodes. Returns it, without needless zeros.
std::string parse_resize(std::string_view text);

/// `text` for a message: shortened, and without what a terminal would obey.
std::string printable(std::string_view text);

}  // namespace bellows::protocol
