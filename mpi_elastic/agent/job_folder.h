// SPDX-License-Identifier: Apache-2.0
// The two private folders that an agent makes on its node and removes again: one for sockets, one
// in memory for Open MPI's shared segments. An agent that was killed leaves its folders behind: the
// next agent of the same user on that node removes them (as does the Slurm plugin, at the end of
// the job).
#pragma once

#include <string>

#include "mpi_elastic/common/process.h"

namespace bellows::elastic {

/// $TMPDIR/bellows-UID-JOB-XXXXXX and /dev/shm/bellows-UID-JOB-XXXXXX, mode 0700. The names are
/// what the Slurm plugin looks for when a job has ended without cleaning up. Each holds a file
/// ".alive" that is locked (flock) for as long as the agent lives.
class JobFolder {
 public:
  /// Removes what dead agents left. Throws std::runtime_error naming the folder and the reason.
  explicit JobFolder(const std::string& job);
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  ~JobFolder();
  const std::string& path() const { return path_; }
  const std::string& memory() const { return memory_; }  // "" where there is no /dev/shm

 private:
  std::string path_;
  std::string memory_;
  Fd alive_, memory_alive_;
};

}  // namespace bellows::elastic
