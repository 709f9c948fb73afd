// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/common/binding.h"

#include <cstdlib>
#include <stdexcept>

namespace bellows::elastic {
namespace {

using Bitmap = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

Bitmap new_bitmap() { return {hwloc_bitmap_alloc(), &hwloc_bitmap_free}; }

std::string list_text(hwloc_const_bitmap_t bitmap) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, bitmap) < 0) throw std::bad_alloc();
  std::string result(text);
  std::free(text);
  return result;
}

}  // namespace

Topology::Topology() {
  if (hwloc_topology_init(&topology_) != 0 || hwloc_topology_load(topology_) != 0) {
    if (topology_ != nullptr) hwloc_topology_destroy(topology_);
    throw std::runtime_error("hwloc cannot read this node's topology");
  }
  const Bitmap allowed = new_bitmap();
  if (hwloc_get_cpubind(topology_, allowed.get(), HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_topology_restrict(topology_, allowed.get(), 0);
  }
  // A core without hardware threads of its own (some virtual machines) shows as a PU only.
  hwloc_obj_type_t type = HWLOC_OBJ_CORE;
  if (hwloc_get_nbobjs_by_type(topology_, type) <= 0) type = HWLOC_OBJ_PU;
  for (int i = 0; i < hwloc_get_nbobjs_by_type(topology_, type); ++i) {
    cores_.push_back(hwloc_get_obj_by_type(topology_, type, static_cast<unsigned>(i)));
  }
  if (cores_.empty()) {
    hwloc_topology_destroy(topology_);
    throw std::runtime_error("hwloc finds no core that this process may use");
  }
}

Topology::~Topology() { hwloc_topology_destroy(topology_); }

std::string Topology::cpu_list(int first, int count) const {
  const Bitmap cpus = new_bitmap();
  for (int i = first; i < first + count; ++i) {
    hwloc_bitmap_or(cpus.get(), cpus.get(), cores_.at(static_cast<std::size_t>(i))->cpuset);
  }
  return list_text(cpus.get());
}

BindPolicy bind_policy(std::string_view text) {
  if (text == "auto") return BindPolicy::automatic;
  if (text == "core") return BindPolicy::core;
  if (text == "none") return BindPolicy::none;
  throw std::invalid_argument("'" + std::string(text) + "' is not one of auto, core, none");
}

std::optional<cpu_set_t> Binding::set() const {
  if (cpus.empty()) return std::nullopt;
  const Bitmap bitmap = new_bitmap();
  hwloc_bitmap_list_sscanf(bitmap.get(), cpus.c_str());
  cpu_set_t result;
  CPU_ZERO(&result);
  int cpu = -1;
  while ((cpu = hwloc_bitmap_next(bitmap.get(), cpu)) >= 0) {
    if (cpu < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpu), &result);
  }
  return result;
}

std::vector<Binding> bind_ranks(const Topology& topology, int ranks, BindPolicy policy) {
  std::vector<Binding> bindings(static_cast<std::size_t>(ranks));
  const int cores = topology.cores();
  if (policy == BindPolicy::none || (policy == BindPolicy::automatic && cores < ranks)) {
    return bindings;
  }
  if (cores < ranks) {
    throw std::runtime_error("--bind-to core: " + std::to_string(ranks) + " ranks, but only " +
                             std::to_string(cores) + " cores may be used on this node");
  }
  int first = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int count = cores / ranks + (rank < cores % ranks ? 1 : 0);
    bindings[static_cast<std::size_t>(rank)].cpus = topology.cpu_list(first, count);
    first += count;
  }
  return bindings;
}

std::string gpus_of_rank(std::string_view visible, int local_rank, int per_rank) {
  std::vector<std::string_view> gpus;
  while (!visible.empty()) {
    const std::size_t comma = visible.find(',');
    gpus.push_back(visible.substr(0, comma));
    visible.remove_prefix(comma == std::string_view::npos ? visible.size() : comma + 1);
  }
  const std::size_t first =
      static_cast<std::size_t>(local_rank) * static_cast<std::size_t>(per_rank);
  if (first + static_cast<std::size_t>(per_rank) > gpus.size()) return "";
  std::string mine;
  for (int i = 0; i < per_rank; ++i) {
    if (i > 0) mine += ',';
    mine += gpus[first + static_cast<std::size_t>(i)];
  }
  return mine;
}

}  // namespace bellows::elastic
