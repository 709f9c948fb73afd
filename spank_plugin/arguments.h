// SPDX-License-Identifier: Apache-2.0
// The plugin's arguments, as they stand behind its path in plugstack.conf.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/elastic_values.h"

namespace bellows::spank {

using namespace protocol;  // the values

struct Arguments {
  /// Whether to remove what a job that died left on its nodes.
  bool cleanup = true;
  /// The folders in which jobs make theirs: /tmp unless TMPDIR says otherwise, and /dev/shm.
  std::vector<std::string> folders{"/tmp", "/dev/shm"};
  /// Seconds after which the cleaning of one job is given up.
  int cleanup_seconds = 20;
  /// The program that resize requests are handed to; "" for the one that was installed with the
  /// plugin, or else the one in PATH.
  std::string bellows;
  /// For jobs that name none.
  std::string mode = "manual";
  std::optional<int> grace;  ///< seconds
  /// The most nodes that an elastic job may ask for, in all and in single partitions.
  int max_nodes = kMostNodes;
  std::map<std::string, int, std::less<>> partition_max;
};

/// An argument that is unknown or has no good value; what() names it.
struct ArgumentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Parses `NAME=VALUE` words; throws ArgumentError.
Arguments parse_arguments(const std::vector<std::string>& words);

/// One line for each argument: its name, values and meaning.
std::string arguments_help();

}  // namespace bellows::spank
