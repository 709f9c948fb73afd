// SPDX-License-Identifier: Apache-2.0
// A child process: start it with all that must be set between fork and exec, hear of its end.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/fd.h"

namespace bellows::elastic {

using protocol::Fd;

/// The program could not be started. `code()` is the errno.
class SpawnError : public std::runtime_error {
 public:
  SpawnError(const std::string& what, int code) : std::runtime_error(what), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

struct SpawnRequest {
  std::vector<std::string> arguments;    // [0] is looked up in PATH of `environment`
  std::vector<std::string> environment;  // NAME=value
  std::string directory;                 // "" = the caller's
  bool pipes = false;                    // stdin, stdout, stderr through pipes; else the caller's
  bool null_input = false;               // without pipes: stdin from /dev/null
  bool die_with_parent = false;          // SIGKILL when the thread that called spawn ends
  bool ignore_sigpipe = false;
  bool block_sigterm = false;
  int inherited = -1;  // a file descriptor that the program gets as it is
  std::optional<cpu_set_t> cpus;
};

/// A started process, in a process group (and session, so that a terminal's signals pass it by) of
/// its own. Killing or reaping it is the owner's business.
struct Process {
  pid_t pid = -1;
  Fd pidfd;         // readable when the process has ended
  Fd in, out, err;  // our ends of the pipes, non-blocking
};

/// Two connected stream sockets, both close-on-exec, the first non-blocking. Throws SpawnError.
std::pair<Fd, Fd> socket_pair();

/// Starts a program. Throws SpawnError naming the program (or the folder) and the reason; a failed
/// exec is reported here, not by an exit code.
Process spawn(const SpawnRequest& request);

/// The file that execvp would run, by the PATH in `environment`; throws SpawnError.
std::string find_program(const std::string& name, const std::vector<std::string>& environment);

/// When a process was started, in the kernel's clock ticks: tells it from a later one of the same
/// id. 0 when there is none, or it has ended.
std::int64_t process_started(pid_t pid);

/// "SIGKILL" for 9; "signal 77" for what has no name.
std::string signal_text(int number);

/// Sets, or leaves alone when it is there, NAME=value in an environment.
void set_variable(std::vector<std::string>& environment, const std::string& name,
                  const std::string& value);
void set_default(std::vector<std::string>& environment, const std::string& name,
                 const std::string& value);
/// The value, or null.
const char* get_variable(const std::vector<std::string>& environment, const std::string& name);
/// Removes every variable whose name begins with `prefix`.
void remove_variables(std::vector<std::string>& environment, const std::string& prefix);
/// This process's own environment.
std::vector<std::string> own_environment();

}  // namespace bellows::elastic
