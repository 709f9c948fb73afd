// SPDX-License-Identifier: Apache-2.0
#include "trainer/team/place.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "mpi_elastic/elastic_world.h"

namespace bellows::trainer {

bool has_launcher() {
  return std::getenv("PMIX_NAMESPACE") != nullptr || is_joiner() || saved_state().has_value();
}

bool is_first_process() {
  const char* rank = std::getenv("PMIX_RANK");
  return rank == nullptr || std::strcmp(rank, "0") == 0;
}

int local_rank() {
  const char* said = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  return said != nullptr ? std::max(0, std::atoi(said)) : 0;
}

}  // namespace bellows::trainer
