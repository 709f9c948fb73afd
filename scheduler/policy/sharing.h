// SPDX-License-Identifier: Apache-2.0
// How the nodes of a cluster are shared among its elastic jobs. Pure functions, without calls,
// clocks or memory of their own.
//
// Whatever the policy: each job keeps `least` nodes and those that it must keep; jobs in the queue
// come next, if nodes that elastic jobs can spare let them start; the rest is given out one unit
// (the job's step) after another, and the policy says to whom, of those who gain from it (worth.h).
// Jobs that are busy with a change, or whose size is their owner's affair, are left alone.
#pragma once

#include <map>
#include <vector>

#include "scheduler/policy/cluster_policy.h"

namespace bellows::scheduler {

struct Surroundings {
  std::vector<ElasticJob> jobs;
  std::vector<JobView> pending;  // jobs that wait for nodes only; the most important one first
  std::vector<NodeView> nodes;
};

/// Of all jobs and nodes of a cluster, what the elastic ones among them have to do with.
Surroundings surroundings_of(std::vector<ElasticJob> elastic, const std::vector<JobView>& jobs,
                             std::vector<NodeView> nodes);

/// What each job should do; jobs without an entry stay as they are. A node that goes to another job
/// is given back first, and counts for the other when it is idle.
std::map<JobId, Decision> decide(const ClusterPolicy& policy, const Surroundings& surroundings);

}  // namespace bellows::scheduler
