// SPDX-License-Identifier: Apache-2.0
// What a bellows-run leaves to the one that takes over when it dies: a file beside the job's
// control socket, for as long as an elastic job runs.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "mpi_elastic/common/world_spec.h"
#include "mpi_elastic/coordinator/allocation.h"
#include "mpi_elastic/coordinator/run_options.h"

namespace bellows::elastic {

/// No bellows-run has left such a job.
class NoSuchJob : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A node that has an agent, or is about to.
struct JobNode {
  std::string name;
  std::uint32_t id = 0;
  std::int64_t pid = 0;      // of the agent, or of the srun that has started it
  std::int64_t started = 0;  // as process_started() says: process ids are used again
};

struct JobRecord {
  std::string name;    // as in `bellows status`: "4711.80", "local-123"
  std::string secret;  // that agents and coordinator prove to each other
  std::uint16_t port = 0;
  std::vector<std::string> addresses;  // where agents look for the coordinator
  Allocation allocation;
  RunOptions options;  // those that matter when the ranks have been started
  Program program;
  std::vector<JobNode> nodes;
  std::uint32_t next_node = 0;  // id
};

/// FOLDER/JOB.job (see protocol/control_socket.h), mode 0600: it has the secret and the environment
/// in it. Replaced as a whole, so that a reader finds the old or the new.
class JobFile {
 public:
  /// Throws std::runtime_error when the name or the folder is not fit.
  explicit JobFile(const std::string& job);
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;
  /// Removes the file: a process that gets so far ends in order.
  ~JobFile();

  /// Throws std::runtime_error naming the file and the reason.
  void write(const JobRecord& record) const;

 private:
  std::string path_;
};

/// What was left for `job`; "4711" also finds "4711.80", if it is the only one. Throws NoSuchJob,
/// or std::runtime_error when the file cannot be trusted or read.
JobRecord read_job(const std::string& job);

}  // namespace bellows::elastic
