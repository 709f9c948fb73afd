// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/agent/rank_environment.h"

#include <algorithm>
#include <stdexcept>

#include "mpi_elastic/common/agent_settings.h"
#include "mpi_elastic/common/binding.h"
#include "mpi_elastic/common/process.h"

namespace bellows::elastic {
namespace {

void take_from_node(std::vector<std::string>& environment, const std::vector<std::string>& node) {
  for (const std::string& variable : node) {
    const std::string name = variable.substr(0, variable.find('='));
    if (name.starts_with("SLURM") || name == "CUDA_VISIBLE_DEVICES" ||
        name == "ROCR_VISIBLE_DEVICES") {
      set_variable(environment, name, variable.substr(name.size() + 1));
    }
  }
}

std::uint32_t ranks_on_machine(const RankPlace& place) {
  return std::max({1U, place.local_size, place.machine_ranks});
}

// Only the ob1 transport is fault tolerant, and han is not usable after a repair.
void set_mpi_parameters(std::vector<std::string>& environment, const RankPlace& place) {
  set_default(environment, "OMPI_MCA_mpi_ft_enable", "1");
  set_default(environment, "OMPI_MCA_pml", "ob1");
  set_default(environment, "OMPI_MCA_btl", "self,tcp,sm");
  set_default(environment, "OMPI_MCA_coll", "^han");
  // Open MPI loads UCX, which is not used, but would catch SIGHUP as a call for its debugger.
  set_default(environment, "UCX_DEBUG_SIGNO", "0");
  if (!place.network.empty() &&
      get_variable(environment, "OMPI_MCA_btl_tcp_if_exclude") == nullptr) {
    set_default(environment, "OMPI_MCA_btl_tcp_if_include", place.network);
  }
  if (!place.memory_folder.empty()) {
    set_default(environment, "OMPI_MCA_btl_sm_backing_directory", place.memory_folder);
  }
  // A rank that spins while it waits takes the core from the one it waits for.
  if (ranks_on_machine(place) > static_cast<std::uint32_t>(place.cores)) {
    set_default(environment, "OMPI_MCA_mpi_yield_when_idle", "1");
  }
}

}  // namespace

std::vector<std::string> rank_environment(const std::vector<std::string>& user,
                                          const std::vector<std::string>& node,
                                          const std::vector<std::string>& pmix,
                                          const RankPlace& place) {
  std::vector<std::string> environment = user;
  // Another launcher's identity would make MPI look for that launcher.
  std::erase_if(environment, [](const std::string& variable) {
    return variable.starts_with("PMIX_") && !variable.starts_with("PMIX_MCA_");
  });
  remove_variables(environment, "PMI_");
  remove_variables(environment, "PRTE_");
  AgentSettings::remove_from(environment);
  take_from_node(environment, node);
  set_mpi_parameters(environment, place);

  const std::string rank = std::to_string(place.rank);
  const std::string size = std::to_string(place.size);
  const std::string local_rank = std::to_string(place.local_rank);
  const std::string local_size = std::to_string(place.local_size);
  // The names by which programs already ask for their place before MPI_Init.
  set_variable(environment, "OMPI_COMM_WORLD_RANK", rank);
  set_variable(environment, "OMPI_COMM_WORLD_SIZE", size);
  set_variable(environment, "OMPI_COMM_WORLD_LOCAL_RANK", local_rank);
  set_variable(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", local_size);
  set_variable(environment, "OMPI_COMM_WORLD_NODE_RANK", local_rank);
  if (get_variable(environment, "SLURM_JOB_ID") != nullptr) {
    set_variable(environment, "SLURM_PROCID", rank);
    set_variable(environment, "SLURM_NTASKS", size);
    set_variable(environment, "SLURM_LOCALID", local_rank);
    set_variable(environment, "SLURM_NODEID", std::to_string(place.node));
    set_variable(environment, "SLURM_NNODES", std::to_string(place.nodes));
  }
  const int threads = std::max(1, place.cores / static_cast<int>(ranks_on_machine(place)));
  set_default(environment, "OMP_NUM_THREADS", std::to_string(threads));
  // libtorch has two teams of threads, that of the main thread and that of the backward pass. While
  // one works the other's would spin on the same cores, for 300,000 turns by libgomp's default;
  // this is what libgomp takes where it knows of more threads than cores.
  if (get_variable(environment, "OMP_WAIT_POLICY") == nullptr)
    set_default(environment, "GOMP_SPINCOUNT", "1000");

  if (place.gpus_per_rank > 0) {
    if (const char* visible = get_variable(environment, "CUDA_VISIBLE_DEVICES")) {
      const std::string mine =
          gpus_of_rank(visible, static_cast<int>(place.local_rank), place.gpus_per_rank);
      if (mine.empty()) {
        throw std::runtime_error("--gpus-per-rank " + std::to_string(place.gpus_per_rank) + ": " +
                                 local_size + " ranks on this node, but CUDA_VISIBLE_DEVICES is '" +
                                 visible + "'");
      }
      set_variable(environment, "CUDA_VISIBLE_DEVICES", mine);
    }
  }
  for (const std::string& variable : pmix) {
    const std::string name = variable.substr(0, variable.find('='));
    set_variable(environment, name, variable.substr(std::min(name.size() + 1, variable.size())));
  }
  return environment;
}

}  // namespace bellows::elastic
