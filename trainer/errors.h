// SPDX-License-Identifier: Apache-2.0
// What the trainer tells its user about, and the exit codes that scripts can rely on.
#pragma once

#include <stdexcept>
#include <string>

namespace bellows::trainer {

/// Exit codes of bellows-train; --requeue-code changes the last.
enum ExitCode : int {
  kSuccess = 0,
  kFailure = 1,   // an error while running: a peer died, no memory, a damaged checkpoint named
  kUsage = 2,     // a wrong option, unknown model, unreadable data: running again cannot help
  kStopped = 3,   // stopped by a signal with nowhere to put a checkpoint
  kRequeue = 85,  // stopped by a signal, checkpoint written: run again and it goes on
};

/// A wrong option, or options that do not fit each other. The message names the option and what
/// is allowed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Data that cannot be used. The message names the file and, where it makes sense, the offset.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An error of one rank that all ranks know of, with the exit code it leads to.
class SharedError : public std::runtime_error {
 public:
  SharedError(int code, const std::string& what) : std::runtime_error(what), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

}  // namespace bellows::trainer
