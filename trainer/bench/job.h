// SPDX-License-Identifier: Apache-2.0
// A bellows-run of ours: started, asked for another size, ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/fd.h"
#include "protocol/message.h"

namespace bellows::bench {

/// Something that was to be measured cannot be. `what()` says what, and where to look.
class BenchError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Job {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts `command`, with what it writes in the file `output`. It gets SIGTERM when we end,
  /// however that is (when the thread that calls this ends). Throws BenchError.
  Job(std::vector<std::string> command, const std::string& output);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// Ends it if it has not ended.
  ~Job();

  /// Throws BenchError when it has ended: it should not yet.
  void check_running();
  /// Waits until so many ranks are in a world. Throws BenchError when that is refused, or not so by
  /// `deadline`.
  void resize(int ranks, Clock::time_point deadline);
  /// Its answer to `bellows status`; nothing while it cannot be asked.
  std::optional<protocol::Message> status();
  /// Tells it to end, and waits; kills it if that takes too long.
  void stop();

 private:
  bool ended_by(Clock::time_point when);
  std::string socket();

  std::string output_;
  pid_t process_ = 0;
  protocol::Fd watch_;
  std::optional<int> status_;  // as of waitpid(), when it has ended
};

/// From now on a job ends with us when a signal ends us.
void catch_stop_signals();

/// Runs a program to its end, with our output. Returns its exit code; 127 when it cannot be
/// started.
int run_program(std::vector<std::string> command);

/// `name` beside our own program if it is there, else as PATH finds it.
std::string sibling(const std::string& name);

}  // namespace bellows::bench
