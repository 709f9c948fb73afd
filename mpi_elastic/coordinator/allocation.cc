// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/allocation.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <sstream>

#include "mpi_elastic/coordinator/run_options.h"
#include "protocol/elastic_settings.h"

namespace bellows::elastic {
namespace {

const char* slurm_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

int usable_cpus() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 1;
  return std::max(1, CPU_COUNT(&cpus));
}

// Slurm's own expansion of "n[1-3,7],gpu1".
std::vector<std::string> expand_hosts(const std::string& list) {
  for (const char c : list) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("[],-_.").find(c) != std::string_view::npos;
    if (!plain) throw AllocationError("SLURM_JOB_NODELIST='" + list + "' is no list of nodes");
  }
  const std::string command = "scontrol show hostnames '" + list + "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"), &pclose);
  std::string text;
  std::array<char, 4096> buffer;
  while (pipe && fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) text += buffer.data();
  std::istringstream lines(text);
  std::vector<std::string> names;
  for (std::string name; lines >> name;) names.push_back(name);
  if (names.empty()) {
    throw AllocationError("cannot expand SLURM_JOB_NODELIST='" + list +
                          "': 'scontrol show hostnames' gave nothing; is scontrol in PATH?");
  }
  return names;
}

std::vector<int> counts_for(const char* variable, std::size_t nodes) {
  const char* text = slurm_variable(variable);
  if (text == nullptr) return {};
  std::vector<int> counts = expand_counts(text);
  if (counts.size() != nodes) {
    throw AllocationError(std::string(variable) + "='" + text + "' does not fit the " +
                          std::to_string(nodes) + " nodes of SLURM_JOB_NODELIST");
  }
  return counts;
}

// `ending`: of the variables' names.
std::vector<Node> nodes_of_component(const char* list, const std::string& ending,
                                     const std::string& job) {
  const std::vector<std::string> names = expand_hosts(list);
  const std::vector<int> cpus =
      counts_for(("SLURM_JOB_CPUS_PER_NODE" + ending).c_str(), names.size());
  // Slurm fills in SLURM_TASKS_PER_NODE by itself; it is the user's word only along with these.
  const bool asked = slurm_variable("SLURM_NTASKS") != nullptr ||
                     slurm_variable(("SLURM_NTASKS" + ending).c_str()) != nullptr ||
                     slurm_variable("SLURM_NTASKS_PER_NODE") != nullptr;
  const std::vector<int> tasks =
      asked ? counts_for(("SLURM_TASKS_PER_NODE" + ending).c_str(), names.size())
            : std::vector<int>{};
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < names.size(); ++i) {
    nodes.push_back({.name = names[i],
                     .cpus = cpus.empty() ? 1 : cpus[i],
                     .tasks = tasks.empty() ? 0 : tasks[i],
                     .job = job});
  }
  return nodes;
}

Allocation slurm_allocation(const std::string& job) {
  // Each copy would start a world of its own, and all of them write the same files.
  const char* copies = slurm_variable("SLURM_STEP_NUM_TASKS");
  if (copies != nullptr && std::string_view(copies) != "1") {
    throw AllocationError(
        "srun has started " + std::string(copies) +
        " copies of bellows-run: start it without srun, it starts the ranks itself");
  }
  const char* list = slurm_variable("SLURM_JOB_NODELIST");
  if (list == nullptr) {
    throw AllocationError(
        "SLURM_JOB_ID is set but SLURM_JOB_NODELIST is not: run inside the "
        "allocation (sbatch, salloc), or give --local-nodes");
  }
  Allocation allocation;
  allocation.slurm = true;
  allocation.job = job;
  allocation.nodes = nodes_of_component(list, "", "");
  // The other components of a heterogeneous job; their steps are started through its first one.
  const char* size = slurm_variable("SLURM_HET_SIZE");
  for (int i = 1; i < (size != nullptr ? std::atoi(size) : 1); ++i) {
    const std::string ending = "_HET_GROUP_" + std::to_string(i);
    const char* others = slurm_variable(("SLURM_JOB_NODELIST" + ending).c_str());
    if (others == nullptr) continue;
    for (Node& node : nodes_of_component(others, ending, job + "+" + std::to_string(i))) {
      allocation.nodes.push_back(std::move(node));
    }
  }
  return allocation;
}

Allocation local_allocation(int nodes) {
  Allocation allocation;
  allocation.job = "local-" + std::to_string(getpid());
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  for (int i = 0; i < nodes; ++i) {
    // Several "nodes" here need names of their own: MPI takes equal names for one node.
    const std::string suffix = nodes > 1 ? "-" + std::to_string(i) : "";
    allocation.nodes.push_back({host.data() + suffix, usable_cpus(), 0});
  }
  return allocation;
}

}  // namespace

std::vector<int> expand_counts(const std::string& text) {
  const auto wrong = [&] { return AllocationError("'" + text + "' is no list of counts"); };
  std::vector<int> counts;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    int value = 0;
    const auto [after, failed] = std::from_chars(at, end, value);
    if (failed != std::errc() || value < 1 || value > 1000000) throw wrong();
    at = after;
    return value;
  };
  while (at != end) {
    const int count = number();
    int times = 1;
    if (end - at >= 2 && at[0] == '(' && at[1] == 'x') {
      at += 2;
      times = number();
      if (at == end || *at++ != ')') throw wrong();
    }
    counts.insert(counts.end(), static_cast<std::size_t>(times), count);
    if (at != end && (*at++ != ',' || at == end)) throw wrong();
  }
  return counts;
}

Allocation find_allocation(const RunOptions& options) {
  const char* job = slurm_variable("SLURM_JOB_ID");
  if (job != nullptr && !options.local_nodes) return slurm_allocation(job);
  return local_allocation(options.local_nodes.value_or(1));
}

std::vector<std::pair<std::string, int>> place_ranks(const Allocation& allocation,
                                                     const RunOptions& options) {
  const std::size_t nodes = allocation.nodes.size();
  std::vector<int> room(nodes);
  int slurm_tasks = 0;
  for (std::size_t i = 0; i < nodes; ++i) {
    const Node& node = allocation.nodes[i];
    slurm_tasks += node.tasks;
    room[i] = node.tasks > 0 ? node.tasks : node.cpus;
    if (options.ranks_per_node) room[i] = *options.ranks_per_node;
  }
  int total = 0;
  if (options.ranks) {
    total = *options.ranks;
  } else if (options.ranks_per_node) {
    total = *options.ranks_per_node * static_cast<int>(nodes);
  } else if (slurm_tasks > 0) {
    total = slurm_tasks;
  } else if (allocation.slurm || nodes > 1) {
    total = static_cast<int>(nodes);  // as srun does
    std::fill(room.begin(), room.end(), 1);
  } else {
    total = room[0];
  }
  const int capacity = std::accumulate(room.begin(), room.end(), 0);
  if (options.ranks_per_node && total > capacity) {
    throw AllocationError("-n " + std::to_string(total) + " ranks do not fit --ranks-per-node=" +
                          std::to_string(*options.ranks_per_node) + " on " + std::to_string(nodes) +
                          " nodes");
  }
  // Several local nodes share one machine's cores: filling the first would leave the rest empty.
  const bool even = total > capacity || (!allocation.slurm && !options.ranks_per_node);
  std::vector<std::pair<std::string, int>> placed;
  int left = total;
  for (std::size_t i = 0; i < nodes && left > 0; ++i) {
    const int nodes_left = static_cast<int>(nodes - i);
    const int count = even ? (left + nodes_left - 1) / nodes_left : std::min(left, room[i]);
    if (count > 0) placed.emplace_back(allocation.nodes[i].name, count);
    left -= count;
  }
  return placed;
}

void take_elastic_bounds(RunOptions& options, const Allocation& allocation) {
  if (!options.elastic_auto || options.elastic) return;
  const auto settings = allocation.slurm ? protocol::elastic_settings() : std::nullopt;
  if (!settings) {
    if (!options.elastic_named) return;
    throw AllocationError(
        "--elastic=auto: this is no Slurm job that was submitted as an elastic one "
        "(BELLOWS_ELASTIC "
        "is not set): give --elastic=MIN-MAX ranks");
  }
  const int per_node = most_ranks_on_a_node(place_ranks(allocation, options));
  options.elastic = {settings->nodes.least * per_node, settings->nodes.most * per_node};
  options.on_failure = OnFailure::go_on;
  if (options.ranks && *options.ranks > options.elastic->second) {
    throw AllocationError("-n " + std::to_string(*options.ranks) + " is more than the " +
                          std::to_string(settings->nodes.most) + " nodes of BELLOWS_ELASTIC allow");
  }
}

int most_ranks_on_a_node(const std::vector<std::pair<std::string, int>>& placed) {
  int most = 1;
  for (const auto& [node, ranks] : placed) most = std::max(most, ranks);
  return most;
}

}  // namespace bellows::elastic
