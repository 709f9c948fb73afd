// SPDX-License-Identifier: Apache-2.0
// mpi_ends HOW: an MPI program whose rank 1 ends badly while the others wait for it in a barrier.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "";
  int rank = 0;
  if (how == "before-init" && std::string_view(std::getenv("OMPI_COMM_WORLD_RANK")) == "1") {
    std::exit(9);
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    if (how == "abort") MPI_Abort(MPI_COMM_WORLD, 42);
    if (how == "exit") _exit(7);
    if (how == "no-finalize") _exit(0);
    if (how == "segv") raise(SIGSEGV);
    if (how == "kill") raise(SIGKILL);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  std::fprintf(stderr, "mpi_ends: '%s' is no way to end\n", how.data());
  return 2;
}
