// SPDX-License-Identifier: Apache-2.0
// The frame of programs that check something on several ranks, started by a launcher: they end with
// 0, and "all good" of rank 0, when every rank finds what it should.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>

#include "mpi_elastic/elastic_world.h"
#include "trainer/team/mpi_backend.h"

namespace bellows::trainer {

inline int failures = 0;  // of this rank

inline void expect(bool good, const std::string& what) {
  if (good) return;
  ++failures;
  fmt::print(stderr, "FAILED: {}\n", what);
}

/// Gives what main() has to return.
inline int check_on_ranks(const std::function<void(ElasticWorld&)>& checks) {
  let_waiting_threads_yield();
  ElasticWorld elastic = ElasticWorld::open();
  const World& world = elastic.world();
  at::set_num_threads(1);
  checks(elastic);
  int all = 0;
  check_mpi(MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, world.communicator()),
            "MPI_Allreduce");
  if (world.rank() == 0 && all == 0) fmt::print("all good on {} ranks\n", world.size());
  elastic.close();
  return all == 0 ? 0 : 1;
}

}  // namespace bellows::trainer
