// SPDX-License-Identifier: Apache-2.0
// Which cores of a node each of its ranks may use, and which GPUs.
#pragma once

#include <hwloc.h>
#include <sched.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bellows::elastic {

/// The node's cores as hwloc sees them, cut down to those that this process may use (a Slurm step's
/// or a cgroup's share).
class Topology {
 public:
  /// Throws std::runtime_error when hwloc cannot read the machine.
  Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  ~Topology();
  hwloc_topology_t get() const { return topology_; }
  /// Cores that this process may use, at least 1.
  int cores() const { return static_cast<int>(cores_.size()); }
  /// The hardware threads of the cores first … first+count-1.
  std::string cpu_list(int first, int count) const;

 private:
  hwloc_topology_t topology_ = nullptr;
  std::vector<hwloc_obj_t> cores_;
};

enum class BindPolicy {
  automatic,  // like `core` when there is a core for every rank, else like `none`
  core,       // an equal share of whole cores for each rank; an error when there are too few
  none,
};
/// Throws std::invalid_argument naming the allowed words.
BindPolicy bind_policy(std::string_view text);

struct Binding {
  std::string cpus;  // "0-1,4": hardware threads; "" = not bound
  std::optional<cpu_set_t> set() const;
};

/// Bindings of `ranks` ranks on this node. Cores that do not divide evenly go to the first ranks.
/// Throws std::runtime_error for BindPolicy::core with fewer cores than ranks.
std::vector<Binding> bind_ranks(const Topology& topology, int ranks, BindPolicy policy);

/// The part of a list of GPUs ("0,1,2,3", as in CUDA_VISIBLE_DEVICES) that is rank `local_rank`'s,
/// with `per_rank` GPUs for each; "" when the list has too few.
std::string gpus_of_rank(std::string_view visible, int local_rank, int per_rank);

}  // namespace bellows::elastic
