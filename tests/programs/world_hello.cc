// SPDX-License-Identifier: Apache-2.0
// A world from bellows::World: sizes, an all-reduce, the name of the epoch, errors, and its end.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "mpi_elastic/world.h"

namespace {

int failures = 0;

void expect(bool good, const char* what) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what);
}

// Two threads take turns.
void check_threads(bellows::World& world) {
  int wrong = 0;
  std::mutex turn;
  const auto work = [&] {
    for (int i = 0; i < 500; ++i) {
      const std::lock_guard<std::mutex> mine(turn);
      const int one = 1;
      int sum = 0;
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world.communicator());
      if (sum != world.size()) ++wrong;
    }
  };
  std::thread thread(work);
  work();
  thread.join();
  expect(wrong == 0, "any thread may call MPI");
}

void check(bellows::World& world) {
  int sum = 0;
  const int rank = world.rank();
  bellows::check_mpi(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, world.communicator()),
                     "MPI_Allreduce");
  expect(sum == world.size() * (world.size() - 1) / 2, "the sum of the ranks");
  if (const char* launched = std::getenv("OMPI_COMM_WORLD_RANK")) {
    expect(std::atoi(launched) == rank, "the rank that the launcher gave");
    expect(std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE")) == world.size(), "the size");
    expect(std::atoi(std::getenv("OMPI_COMM_WORLD_LOCAL_RANK")) == world.local_rank(),
           "the rank on the node");
    expect(std::atoi(std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE")) == world.local_size(),
           "the ranks of the node");
    expect(world.name() == std::getenv("PMIX_NAMESPACE"), "the name of the epoch");
  }
  check_threads(world);
  // An error is returned, and has a text.
  try {
    int value = 0;
    bellows::check_mpi(MPI_Bcast(&value, 1, MPI_INT, world.size() + 5, world.communicator()),
                       "MPI_Bcast");
    expect(false, "an error is an exception");
  } catch (const bellows::MpiError& error) {
    expect(error.code() == MPI_ERR_ROOT, "the error's class");
    expect(!error.is_failure_of_a_peer(), "the program's own fault");
  }
  // Not a code of MPI's, as Open MPI's internal ones: no reason to end the process.
  try {
    bellows::check_mpi(-13, "MPI_Anything");
    expect(false, "an internal error is an exception");
  } catch (const bellows::MpiError& error) {
    expect(error.code() == -13, "the internal error's code");
  }
}

}  // namespace

// world_hello [die-in-second]: rank 1 ends in its second world without closing it, the others stay.
int main(int argc, char**) {
  bellows::World world = bellows::World::open();
  check(world);
  if (argc > 1) {
    world.close();
    world = bellows::World::open();
    if (world.rank() == 1) _exit(0);
    pause();  // until the launcher stops it
  }
  bellows::World moved = std::move(world);
  check(moved);
  int all = 0;
  bellows::check_mpi(MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, moved.communicator()),
                     "MPI_Allreduce");
  const int rank = moved.rank();
  if (rank == 0 && all == 0) {
    std::printf("all good on %d ranks, %d on this node\n", moved.size(), moved.local_size());
  }
  moved.close();
  expect(moved.communicator() == MPI_COMM_NULL, "closed");
  moved.close();
  return all == 0 && failures == 0 ? 0 : 1;
}
