// SPDX-License-Identifier: Apache-2.0
// mpi_survive [RANK…]: the named ranks kill themselves in the middle of the work; "agent-of RANK"
// kills that rank's agent. The others shrink the communicator (ULFM), finish, and say so. Before,
// on stderr, in seconds of one clock: "killed at T" from the dead, and from the last rank "repair
// N: noticed T, shrunk T, reduced T", the last for the first reduction of the smaller world.
// clang-format off: the second needs the first
#include <mpi.h>
#include <mpi-ext.h>
// clang-format on
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool named(int argc, char** argv, int rank) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "agent-of") == 0) {
      ++i;
    } else if (std::atoi(argv[i]) == rank) {
      return true;
    }
  }
  return false;
}

bool agent_named(int argc, char** argv, int rank) {
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i - 1], "agent-of") == 0 && std::atoi(argv[i]) == rank) return true;
  }
  return false;
}

// (MPI_Wtime may begin anew in each process.)
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_last(MPI_Comm world) {
  int rank = 0, size = 0;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  return rank == size - 1;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(nullptr, nullptr);
  MPI_Comm world = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  int rank = 0, size = 0, repairs = 0;
  bool repaired = false;
  double noticed = 0, shrunk = 0;
  MPI_Comm_rank(world, &rank);
  for (int step = 0; step < 200; ++step) {
    if (step == 50 && named(argc, argv, rank)) {
      std::fprintf(stderr, "killed at %.6f\n", now());
      raise(SIGKILL);
    }
    if (step == 50 && agent_named(argc, argv, rank)) kill(getppid(), SIGKILL);
    int one = 1, sum = 0;
    const int failed = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world);
    int fine = failed == MPI_SUCCESS ? 1 : 0;
    if (failed != MPI_SUCCESS) MPIX_Comm_revoke(world);
    MPIX_Comm_agree(world, &fine);
    if (fine == 1) {
      if (repaired && is_last(world)) {
        std::fprintf(stderr, "repair %d: noticed %.6f, shrunk %.6f, reduced %.6f\n", repairs,
                     noticed, shrunk, now());
      }
      repaired = false;
      continue;
    }
    if (!repaired) noticed = now();
    MPI_Comm smaller = MPI_COMM_NULL;
    MPIX_Comm_revoke(world);
    if (MPIX_Comm_shrink(world, &smaller) != MPI_SUCCESS) return 3;
    MPI_Comm_free(&world);
    world = smaller;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    shrunk = now();
    repaired = true;
    ++repairs;
    --step;
  }
  MPI_Comm_size(world, &size);
  MPI_Comm_rank(world, &rank);
  if (rank == 0) std::printf("%d survivors after %d repairs\n", size, repairs);
  MPI_Comm_free(&world);
  MPI_Finalize();
  return 0;
}
