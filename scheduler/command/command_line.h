// SPDX-License-Identifier: Apache-2.0
// The command line of bellows.
#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/message.h"

namespace bellows::scheduler {

/// Wrong use; `what()` names the argument and what is allowed.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Command {
  enum class What { help, version, status, events, resize, leave, jobs, top, picture };

  What what = What::help;
  std::optional<std::string> job;          // a job's name
  std::optional<std::string> socket;       // or a control socket; else the only job there is
  std::vector<std::string> jobs, sockets;  // top: of several; neither: all there are
  bool everybody = false;                  // ... and other users' that bellowsd knows
  bool once = false;
  std::chrono::milliseconds interval{2'000};
  std::vector<std::string> files;  // picture: of bellowsd's events
  std::string output;              // ... "" or -: standard output
  bool json = false;
  bool to_broker = false;             // the request is bellows-broker's, not bellows-run's
  bool as_operator = false;           // and goes through bellowsd, to any user's job
  bool follow = false;                // events: until the job ends
  std::optional<double> since;        // ... from then on, Unix time
  std::optional<std::string> file;    // ... from there instead of from a job
  protocol::Message request;          // for status, resize, leave
  std::chrono::milliseconds wait{0};  // for the new world; 0: not at all
};

/// Throws UsageError.
Command parse_command(const std::vector<std::string>& arguments);

std::string help_text();

}  // namespace bellows::scheduler
