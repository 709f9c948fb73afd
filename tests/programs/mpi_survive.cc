// SPDX-License-Identifier: Apache-2.0
// mpi_survive [RANK…]: the named ranks kill themselves in the middle of the work; "agent-of RANK"
// kills that rank's agent. The others shrink the communicator (ULFM), finish, and say so.
// clang-format off: the second needs the first
#include <mpi.h>
#include <mpi-ext.h>
// clang-format on
#include <signal.h>
#include <unistd.h>

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

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(nullptr, nullptr);
  MPI_Comm world = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  int rank = 0, size = 0, repairs = 0;
  MPI_Comm_rank(world, &rank);
  for (int step = 0; step < 200; ++step) {
    if (step == 50 && named(argc, argv, rank)) raise(SIGKILL);
    if (step == 50 && agent_named(argc, argv, rank)) kill(getppid(), SIGKILL);
    int one = 1, sum = 0;
    const int failed = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world);
    int fine = failed == MPI_SUCCESS ? 1 : 0;
    if (failed != MPI_SUCCESS) MPIX_Comm_revoke(world);
    MPIX_Comm_agree(world, &fine);
    if (fine == 1) continue;
    MPI_Comm smaller = MPI_COMM_NULL;
    MPIX_Comm_revoke(world);
    if (MPIX_Comm_shrink(world, &smaller) != MPI_SUCCESS) return 3;
    MPI_Comm_free(&world);
    world = smaller;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
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
