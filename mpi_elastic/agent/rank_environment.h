// SPDX-License-Identifier: Apache-2.0
// The environment that a rank starts with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bellows::elastic {

struct RankPlace {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 0;
  std::uint32_t node = 0;  // index among the nodes of the world
  std::uint32_t nodes = 1;
  int cores = 1;                    // of the node, that the job may use
  std::uint32_t machine_ranks = 0;  // that share these cores; 0: local_size
  int gpus_per_rank = 0;            // 0: leave CUDA_VISIBLE_DEVICES alone
  std::string network;        // "10.88.0.0/16": where MPI's TCP connections go; "" = MPI chooses
  std::string memory_folder;  // for shared-memory segments; "" = MPI chooses
};

/// From lowest to highest priority: what the launcher was started with (`user`), this node's own
/// SLURM variables and GPUs (`node`), the rank's place, and `pmix`. Open MPI's parameters that
/// fault tolerance needs are set only where the user has not set them.
std::vector<std::string> rank_environment(const std::vector<std::string>& user,
                                          const std::vector<std::string>& node,
                                          const std::vector<std::string>& pmix,
                                          const RankPlace& place);

}  // namespace bellows::elastic
