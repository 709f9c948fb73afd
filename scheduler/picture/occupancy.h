// SPDX-License-Identifier: Apache-2.0
// Which job has which nodes, as Slurm says, and what has changed from one look to the next.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/cluster/cluster.h"

namespace bellows::scheduler {

/// A job that has other nodes than before; all gone: it is over.
struct NodesChange {
  JobId job = 0;
  std::string name, partition;
  std::uint32_t user = 0;  // uid
  bool elastic = false;
  std::vector<std::string> nodes, got, gave;  // each sorted
};

class Occupancy {
 public:
  /// `jobs`: all of the cluster. Nodes of companions (bricks, expansions) and of the components of
  /// a heterogeneous job count for the job they belong to. A job is elastic from the first look at
  /// which it is among `elastic` on. Sorted by job.
  std::vector<NodesChange> update(const std::vector<JobView>& jobs, const std::set<JobId>& elastic);

 private:
  struct Holder {
    std::string name, partition;
    std::uint32_t user = 0;
    bool elastic = false;
    std::set<std::string> nodes;
  };
  std::map<JobId, Holder> holders_;
};

}  // namespace bellows::scheduler
