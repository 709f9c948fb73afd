// SPDX-License-Identifier: Apache-2.0
// How the ranks ended, what that makes of the job's exit code, and what to tell the user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mpi_elastic/coordinator/run_options.h"

namespace bellows::elastic {

struct RankEnd {
  std::int64_t rank = 0;
  std::string node;
  std::int64_t pid = 0;
  int code = 0;                     // exit code, when no signal ended it
  int signal = 0;                   // that ended it, or 0
  bool connected = false;           // had called MPI_Init
  bool finalized = false;           // had called MPI_Finalize
  bool node_lost = false;           // gone with its node; `error` says how
  bool stopped = false;             // ended because the launcher stopped it
  std::optional<int> abort_status;  // had called MPI_Abort
  std::string error;                // why it could not start, or why its node is lost
  double seconds = 0;               // since its start
};

/// In order: exit code 0, and MPI_Finalize called if MPI_Init was.
bool is_failure(const RankEnd& end);

/// 0 for an end in order; 128 + signal; MPI_Abort's status or the exit code; 1 where none of these
/// is above 0.
int exit_code_of(const RankEnd& end);

/// By its own decision: with whatever exit code, but outside MPI (not begun, or finalized).
bool ended_by_itself(const RankEnd& end);

/// True when the rank ended because MPI told it that another one had (MPI_ERRORS_ARE_FATAL, which
/// is every program's default).
bool is_consequence(const RankEnd& end);

/// "rank 3 on n2 (pid 4242) was killed by SIGKILL after 12.3 s"
std::string describe(const RankEnd& end);

class JobOutcome {
 public:
  explicit JobOutcome(OnFailure on_failure) : on_failure_(on_failure) {}
  void add(const RankEnd& end);
  /// What failed so far was repaired: it does not speak for the job.
  void forgive();

  /// srun's rule: the highest exit code, or 128 + signal, of any rank that the launcher did not
  /// stop itself, and that did not end as a consequence of another's end (unless there is no
  /// other). Where failures are survived (OnFailure::go_on) the ranks that ended with an exit code
  /// speak for the job, if there are any.
  int exit_code() const;
  /// One line about the first failure that is no consequence of another, "" if there was none. To
  /// be printed last.
  std::string summary() const;

 private:
  OnFailure on_failure_;
  std::vector<RankEnd> ends_;
  std::optional<RankEnd> first_failure_;
  std::size_t stopped_ = 0;
};

}  // namespace bellows::elastic
