// SPDX-License-Identifier: Apache-2.0
// The two private folders that an agent makes on its node and removes again: one for sockets, one
// in memory for Open MPI's shared segments.
#pragma once

#include <string>

namespace bellows::elastic {

/// $TMPDIR/bellows-UID-JOB-XXXXXX and /dev/shm/bellows-UID-JOB-XXXXXX, mode 0700. The names are
/// what the Slurm plugin looks for when a job has ended without cleaning up.
class JobFolder {
 public:
  /// Throws std::runtime_error naming the folder and the reason.
  explicit JobFolder(const std::string& job);
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  ~JobFolder();
  const std::string& path() const { return path_; }
  const std::string& memory() const { return memory_; }  // "" where there is no /dev/shm

 private:
  std::string path_;
  std::string memory_;
};

}  // namespace bellows::elastic
