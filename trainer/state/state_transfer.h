// SPDX-License-Identifier: Apache-2.0
// After each change of the world: who is behind gets the state of who is furthest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mpi_elastic/elastic_world.h"
#include "trainer/state/course.h"
#include "trainer/state/training_state.h"

namespace bellows::trainer {

/// What a rank brings along to a new world.
struct Arrival {
  bool newcomer = false;  // its first world
  bool failure = false;   // it left the last one because of an error
};

/// What all know afterwards.
struct Gathering {
  bool complete = false;  // somebody had the state, so all have it now
  int ranks = 0;
  int nodes = 0;
  int newcomers = 0;
  bool failure = false;     // some rank met an error
  std::uint64_t bytes = 0;  // of state, over all ranks that received
};

/// Collective; to be called while no other collective of this world is going on. Takes what the
/// ranks together know about the course of the run. The state of a rank that is behind changes in
/// one update when all has arrived; a rank whose state is not complete is filled in place. When
/// nobody is behind, one small all-gather is all that happens. With BELLOWS_CHECK_STATE in the
/// environment the ranks then compare hashes of their states.
///
/// Throws MpiError (the state is what it was, and may be asked for in the next world), and
/// std::runtime_error when the ranks' models differ, or their hashes.
Gathering synchronise(ElasticWorld& world, const Arrival& own, TrainingState& state,
                      Course& course);

/// For each rank, the ranks that it gets the state from, each an equal part of it: none when it is
/// as far as any, else those of the furthest that are on its node, else all of the furthest.
/// `steps` has -1 for ranks without a state; `nodes` tells nodes apart.
std::vector<std::vector<int>> plan_transfer(std::span<const std::int64_t> steps,
                                            std::span<const std::uint64_t> nodes);

/// The transfer alone, in rounds of at most `window` bytes per receiver; collective. `sources` as
/// from plan_transfer, the same on all ranks.
void transfer(MPI_Comm communicator, const std::vector<std::vector<int>>& sources,
              ElasticWorld& world, TrainingState& state, std::size_t window);

}  // namespace bellows::trainer
