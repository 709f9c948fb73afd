// SPDX-License-Identifier: Apache-2.0
// The communicator of one membership, taken from an MPI session (process set mpi://WORLD), so that
// a process can leave one world and enter the next without having called MPI_Init.
#pragma once

#include <mpi.h>

#include <stdexcept>
#include <string>

namespace bellows {

/// An MPI call that did not return MPI_SUCCESS. `code()` is the MPI error class.
class MpiError : public std::runtime_error {
 public:
  MpiError(const std::string& what, int code);
  int code() const { return code_; }
  /// True when a member of the world is dead or the communicator is revoked (MPIX_ERR_PROC_FAILED,
  /// MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED): the world can be repaired, the program is
  /// not at fault.
  bool is_failure_of_a_peer() const;

 private:
  int code_;
};

/// Throws MpiError("WHAT: text of the error") unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* what);

/// One world. Move-only; owns the session and the communicator. Errors are returned
/// (MPI_ERRORS_RETURN), never fatal.
///
/// Any thread may call MPI, but one at a time (MPI_THREAD_SERIALIZED). More does not hold in Open
/// MPI 5.0: it grants MPI_THREAD_MULTIPLE to a session, yet sets `ompi_mpi_thread_multiple` in
/// MPI_Init only, and without it all threads' blocking receives share one request
/// (pml_ob1_irecv.c). Worse, with real locks it locks itself out when a connection breaks: the
/// receiver of the TCP transport holds the endpoint's lock as it reports the failure, which makes
/// pml_ob1 send by the same endpoint.
class World {
 public:
  /// Opens the world that the launcher (bellows-run, mpirun, srun) started this process in.
  /// Throws MpiError when MPI cannot be initialised. From then on SIGPIPE is ignored, unless the
  /// program has a handler for it.
  static World open();

  World(World&& other) noexcept;
  World& operator=(World&& other) noexcept;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  /// Closes if still open.
  ~World();

  MPI_Comm communicator() const { return communicator_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Rank among the processes of this node, and their number.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  /// Name of the epoch: the PMIx namespace, e.g. "bellows-4711@1".
  const std::string& name() const { return name_; }

  /// Frees the communicator and finalises the session. Collective when all members are alive.
  void close();

 private:
  World() = default;
  MPI_Session session_ = MPI_SESSION_NULL;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = -1;
  int size_ = 0;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::string name_;
};

}  // namespace bellows
