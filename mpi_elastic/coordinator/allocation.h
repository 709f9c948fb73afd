// SPDX-License-Identifier: Apache-2.0
// Which nodes a job may use, and how many ranks each gets.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace bellows::elastic {

struct RunOptions;

/// The allocation cannot be read, or does not hold what is asked for.
class AllocationError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Node {
  std::string name;
  int cpus = 1;          // that the job has there
  int tasks = 0;         // that Slurm would start there; 0 = the user did not say
  std::string job = {};  // the Slurm job through which srun reaches it; "" = the allocation's
  bool added = false;    // while the job ran
};

struct Allocation {
  bool slurm = false;
  std::string job;  // "4711", or "local-PID"
  std::vector<Node> nodes;
};

/// The Slurm allocation that this process is in (SLURM_JOB_ID and companions), unless the options
/// ask for local nodes; else this machine.
Allocation find_allocation(const RunOptions& options);

/// Ranks by node, in the order of the nodes; nodes without ranks are left out. Blocks: the first
/// node is filled before the second. Slurm's own counts hold where the options say nothing; more
/// ranks than the nodes have room for are spread evenly.
std::vector<std::pair<std::string, int>> place_ranks(const Allocation& allocation,
                                                     const RunOptions& options);

int most_ranks_on_a_node(const std::vector<std::pair<std::string, int>>& placed);

/// Makes the options' world one that changes, if the Slurm job was submitted as such a job
/// (BELLOWS_ELASTIC, in nodes) and the options leave that open: bounds in ranks are those in nodes
/// times the ranks of a node. Throws AllocationError when --elastic=auto finds none,
/// protocol::BadSetting.
void take_elastic_bounds(RunOptions& options, const Allocation& allocation);

/// "4(x2),3" → 4, 4, 3 (SLURM_TASKS_PER_NODE, SLURM_JOB_CPUS_PER_NODE). Throws AllocationError.
std::vector<int> expand_counts(const std::string& text);

}  // namespace bellows::elastic
