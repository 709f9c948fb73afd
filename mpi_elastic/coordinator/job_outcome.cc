// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/job_outcome.h"

#include <algorithm>
#include <cstdio>

#include "mpi_elastic/common/process.h"

namespace bellows::elastic {

bool is_failure(const RankEnd& end) { return exit_code_of(end) != 0; }

int exit_code_of(const RankEnd& end) {
  if (end.signal != 0) return 128 + end.signal;
  if (end.abort_status) return std::max(*end.abort_status & 0xff, 1);  // never taken for success
  if (end.code != 0) return end.code;
  return ended_by_itself(end) ? 0 : 1;
}

bool ended_by_itself(const RankEnd& end) {
  return end.signal == 0 && !end.node_lost && end.error.empty() && !end.abort_status &&
         end.finalized == end.connected;
}

bool is_consequence(const RankEnd& end) {
  // Open MPI's MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING and MPIX_ERR_REVOKED.
  const int status = end.abort_status.value_or(end.code);
  return end.connected && !end.finalized && end.signal == 0 && status >= 75 && status <= 77;
}

std::string describe(const RankEnd& end) {
  const std::string who = end.rank < 0 ? "a joining rank" : "rank " + std::to_string(end.rank);
  std::string text = who + " on " + end.node;
  if (end.node_lost) return text + " was lost with its node: " + end.error;
  if (!end.error.empty()) return text + ": " + end.error;
  if (end.pid > 0) text += " (pid " + std::to_string(end.pid) + ")";
  if (end.abort_status) {
    text += " called MPI_Abort with status " + std::to_string(*end.abort_status);
  } else if (end.signal != 0) {
    text += " was killed by " + signal_text(end.signal);
  } else if (end.code == 0 && is_failure(end)) {
    text += " ended without calling MPI_Finalize";
  } else {
    text += " ended with exit code " + std::to_string(end.code);
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, " after %.1f s", end.seconds);
  return text + seconds;
}

void JobOutcome::add(const RankEnd& end) {
  ends_.push_back(end);
  if (end.stopped) {
    ++stopped_;
  } else if (is_failure(end) &&
             (!first_failure_ || (is_consequence(*first_failure_) && !is_consequence(end)))) {
    first_failure_ = end;
  }
}

void JobOutcome::forgive() {
  std::erase_if(ends_, is_failure);
  first_failure_.reset();
}

int JobOutcome::exit_code() const {
  const bool has_cause = first_failure_ && !is_consequence(*first_failure_);
  int highest = 0;
  bool survivor = false;
  int highest_survivor = 0;
  for (const RankEnd& end : ends_) {
    if (end.stopped || (has_cause && is_consequence(end))) continue;
    const int code = exit_code_of(end);
    highest = std::max(highest, code);
    if (end.signal == 0 && !end.node_lost && end.error.empty()) {
      survivor = true;
      highest_survivor = std::max(highest_survivor, code);
    }
  }
  return on_failure_ == OnFailure::go_on && survivor ? highest_survivor : highest;
}

std::string JobOutcome::summary() const {
  if (!first_failure_) return "";
  std::string line = describe(*first_failure_);
  if (stopped_ > 0) {
    line += stopped_ == 1 ? "; the other rank was stopped"
                          : "; the other " + std::to_string(stopped_) + " ranks were stopped";
  }
  return line;
}

}  // namespace bellows::elastic
