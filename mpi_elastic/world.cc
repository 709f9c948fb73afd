// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/world.h"

#include <mpi-ext.h>
#include <signal.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "mpi_elastic/fault_point.h"
#include "mpi_elastic/pmix_connection.h"

namespace bellows {

namespace {

// Open MPI returns internal codes now and then; asked what they mean, it ends the process.
bool is_mpi_code(int code) { return code >= 0 && code <= MPI_ERR_LASTCODE; }

}  // namespace

MpiError::MpiError(const std::string& what, int code) : std::runtime_error(what), code_(code) {
  // Error classes are comparable, codes are the implementation's own.
  int error_class = code;
  if (is_mpi_code(code) && MPI_Error_class(code, &error_class) == MPI_SUCCESS) code_ = error_class;
}

bool MpiError::is_failure_of_a_peer() const {
  return code_ == MPIX_ERR_PROC_FAILED || code_ == MPIX_ERR_PROC_FAILED_PENDING ||
         code_ == MPIX_ERR_REVOKED;
}

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "internal error of MPI";
  int length = 0;
  if (is_mpi_code(code)) MPI_Error_string(code, text, &length);
  throw MpiError(std::string(what) + ": " + text, code);
}

World World::open() {
  // A peer that ends closes its connections: that must be an error of MPI's, not a signal.
  struct sigaction pipe_action;
  if (sigaction(SIGPIPE, nullptr, &pipe_action) == 0 && pipe_action.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
  World world;
  MPI_Info info = MPI_INFO_NULL;
  check_mpi(MPI_Info_create(&info), "MPI_Info_create");
  MPI_Info_set(info, "thread_level", "MPI_THREAD_SERIALIZED");
  const int opened = MPI_Session_init(info, MPI_ERRORS_RETURN, &world.session_);
  MPI_Info_free(&info);
  check_mpi(opened, "MPI_Session_init");
  elastic::send_to_pmix_server_at_once();
  elastic::fault_point("session");

  MPI_Group group = MPI_GROUP_NULL;
  check_mpi(MPI_Group_from_session_pset(world.session_, "mpi://WORLD", &group),
            "MPI_Group_from_session_pset(mpi://WORLD)");
  const char* nspace = std::getenv("PMIX_NAMESPACE");
  world.name_ = nspace != nullptr ? nspace : "singleton";
  const int created =
      MPI_Comm_create_from_group(group, ("bellows." + world.name_).c_str(), MPI_INFO_NULL,
                                 MPI_ERRORS_RETURN, &world.communicator_);
  MPI_Group_free(&group);
  check_mpi(created, "MPI_Comm_create_from_group");
  elastic::fault_point("communicator");
  check_mpi(MPI_Comm_rank(world.communicator_, &world.rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(world.communicator_, &world.size_), "MPI_Comm_size");

  // Launchers say it, but for srun.
  const char* local_rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  const char* local_size = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (local_rank != nullptr && local_size != nullptr) {
    world.local_rank_ = std::atoi(local_rank);
    world.local_size_ = std::atoi(local_size);
    return world;
  }
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world.communicator_, MPI_COMM_TYPE_SHARED, world.rank_,
                                MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  MPI_Comm_rank(node, &world.local_rank_);
  MPI_Comm_size(node, &world.local_size_);
  MPI_Comm_free(&node);
  return world;
}

World::World(World&& other) noexcept { *this = std::move(other); }

World& World::operator=(World&& other) noexcept {
  std::swap(session_, other.session_);
  std::swap(communicator_, other.communicator_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(local_rank_, other.local_rank_);
  std::swap(local_size_, other.local_size_);
  std::swap(name_, other.name_);
  return *this;
}

World::~World() {
  try {
    close();
  } catch (const MpiError&) {  // a peer died first: nothing left to free in order
  }
}

void World::close() {
  if (communicator_ != MPI_COMM_NULL) {
    const int freed = MPI_Comm_free(&communicator_);
    communicator_ = MPI_COMM_NULL;
    check_mpi(freed, "MPI_Comm_free");
  }
  if (session_ != MPI_SESSION_NULL) {
    const int closed = MPI_Session_finalize(&session_);
    session_ = MPI_SESSION_NULL;
    check_mpi(closed, "MPI_Session_finalize");
  }
}

}  // namespace bellows
