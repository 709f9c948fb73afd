// SPDX-License-Identifier: Apache-2.0
// Slurm's records of jobs and nodes as the views of cluster.h.
#pragma once

#include <slurm/slurm.h>

#include <map>
#include <set>
#include <string>

#include "scheduler/cluster/cluster.h"

namespace bellows::scheduler {

JobView view_of(const slurm_job_info_t& job);
/// `partitions`: those that are up, by node.
NodeView view_of(const node_info_t& node, int allocated_cpus,
                 const std::map<std::string, std::set<std::string>>& partitions);

/// "" for null.
std::string text_or_empty(const char* text);

}  // namespace bellows::scheduler
