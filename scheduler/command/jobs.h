// SPDX-License-Identifier: Apache-2.0
// Which of this user's jobs were started on this machine and can be talked to.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace bellows::scheduler {

struct Job {
  std::string name;
  std::string socket;
};

/// No such job here; `what()` says where it was looked for, and which there are.
class NoJob : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Several could be meant; `what()` lists them.
class ManyJobs : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The jobs whose launcher listens, by name. Throws std::runtime_error when the folder of the
/// control sockets cannot be trusted or read.
std::vector<Job> running_jobs();

/// The job of that name, else the one launcher of that Slurm job ("4711" for "4711.80"). Without a
/// name: that of $SLURM_JOB_ID where it is set, else the only job there is. Throws NoJob, ManyJobs,
/// and what running_jobs throws.
Job find_job(const std::optional<std::string>& name);

}  // namespace bellows::scheduler
