// SPDX-License-Identifier: Apache-2.0
// What an elastic job has: its own allocation (the components of it, for a heterogeneous job) and
// its companions (bricks), found among all jobs. Nothing of this is kept anywhere else.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/broker/run_client.h"
#include "scheduler/cluster/cluster.h"

namespace bellows::scheduler {

struct Holdings {
  std::vector<JobView> base;        // the components, by their offset; one if it is not het
  std::vector<JobView> bricks;      // pending and running, oldest first
  std::vector<JobView> expansions;  // not merged yet
  std::set<JobId> over;             // bricks that have ended

  bool running() const;  // the base, that is
  /// Of base and running bricks.
  std::vector<std::string> nodes() const;
  const JobView* holder(const std::string& node) const;
  /// Nodes that must stay: of the script.
  std::set<std::string> fixed() const;
};

/// Throws ClusterError (unknown_job) when there is no such job.
Holdings find_holdings(const std::vector<JobView>& jobs, JobId base);

/// Which nodes go when `count` are to: those that came last, first; of a brick its script's node
/// after all others, so that any first part of the list can be given back. Fewer if there are no
/// more.
std::vector<std::string> choose_to_go(const Holdings& holdings, const RunStatus& run, int count);

/// "" or why these nodes cannot be given back as a set.
std::string why_not_give_back(const Holdings& holdings, const std::vector<std::string>& nodes);

}  // namespace bellows::scheduler
