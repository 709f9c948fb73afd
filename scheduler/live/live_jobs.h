// SPDX-License-Identifier: Apache-2.0
// All jobs that `bellows top` watches: which they are, how each of them answers, and those that
// have gone.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/message.h"
#include "scheduler/live/live_job.h"

namespace bellows::scheduler {

/// One look at all of them.
struct LiveRound {
  double time = 0;  // Unix time
  std::vector<LiveJob> jobs;
  std::vector<std::string> notes;  // of what could not be asked
  /// A job that was named could not be found, or does not answer.
  bool missing = false;
};

class LiveJobs {
 public:
  struct Settings {
    std::vector<std::string> jobs = {}, sockets = {};  // those that are named; none: all own ones
    bool everybody = false;                            // bellowsd's of other users, too
    std::chrono::milliseconds limit{2'000};            // for each answer
    /// Asks bellowsd for its jobs; throws when it does not answer. Empty: there is none.
    std::function<protocol::Message(std::chrono::milliseconds limit)> ask_daemon = {};
  };
  explicit LiveJobs(Settings settings) : settings_(std::move(settings)) {}

  /// Asks all at the same time, so it takes little longer than the limit whoever does not answer.
  LiveRound look();

 private:
  struct Target {
    std::string name, socket;
  };
  std::vector<Target> targets(LiveRound& round) const;
  void add_from_daemon(LiveRound& round, std::vector<std::string>& unfound) const;
  void remember(LiveRound& round);

  struct Seen {
    LiveJob job;
    double time = 0;  // when it answered last, Unix time
  };
  Settings settings_;
  std::map<std::string, Seen> seen_;  // by key
};

}  // namespace bellows::scheduler
