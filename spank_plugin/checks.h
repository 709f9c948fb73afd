// SPDX-License-Identifier: Apache-2.0
// Whether the options that were given go together, with each other, with the job and with the
// administrator's limits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "spank_plugin/arguments.h"
#include "spank_plugin/command_line.h"
#include "spank_plugin/options.h"

namespace bellows::spank {

/// What is known of a job when it is submitted.
struct Submission {
  bool makes_job = true;                  ///< false: a step of a job that there is already
  bool given_here = true;                 ///< false: all come from the surrounding job
  std::optional<NodeRange> nodes;         ///< -N, where it is known
  std::optional<std::string> partitions;  ///< names with commas in between, where known
};

/// Throws ValueError, with the whole message, when they do not go together.
void check_submission(const GivenOptions& given, const Submission& submission,
                      const Arguments& arguments);

/// As a job starts, where limits can be checked that were not known before.
struct StartedJob {
  std::optional<int> nodes;
  std::string partition;
};

/// The bounds within the administrator's limits for the partition; `note` is what the user should
/// be told, if anything. Nothing if even MIN is above them.
struct Admitted {
  std::optional<Bounds> bounds;
  std::string note;
};
Admitted admit(const Bounds& bounds, const StartedJob& job, const Arguments& arguments);

/// The most nodes that an elastic job may have in a partition.
int node_limit(const Arguments& arguments, std::string_view partition);

}  // namespace bellows::spank
