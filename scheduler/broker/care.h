// SPDX-License-Identifier: Apache-2.0
// What the broker does without being asked: it keeps allocation and world together as Slurm takes
// nodes, gives notice, or drains them, gives back what is held for nothing, and follows a policy.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "scheduler/broker/desk.h"
#include "scheduler/broker/resize.h"

namespace bellows::scheduler {

class Care {
 public:
  explicit Care(Desk& desk) : desk_(desk) {}

  /// One look at everything, and what follows from it. `busy`: a request is under way, so the
  /// policy rests. False when the base has ended. Failures of Slurm and of bellows-run are waited
  /// out.
  bool look(bool busy);

  /// All companions of the job are cancelled, by what can be found in this moment. False when Slurm
  /// could not be reached.
  bool cancel_companions();

 private:
  struct View {
    Holdings holdings;
    std::vector<JobView> jobs;
    std::vector<NodeView> nodes;
    RunStatus run;
  };
  void forget_taken(const View& view);
  void leave_endangered(const View& view);
  void give_back_unused(const View& view);
  void cancel_strays(const View& view);
  void follow_policy(const View& view);
  void report(const Outlook& seen, const View& view);
  void obey(const Decision& decision);
  void let_go(const std::vector<std::string>& nodes, const std::string& why);
  bool lasted(const std::string& what, Seconds time);
  bool seen_before(const std::string& what);

  Desk& desk_;
  std::map<std::string, Time> since_;  // when a condition was first seen
  std::set<std::string> seen_;         // conditions of this look
  std::set<std::string> warned_;
  std::map<int, Speed> speeds_;
  bool by_companions_ = false;  // it cannot be expanded
  int size_ = 0;
  Time size_since_{}, grow_again_{};
};

}  // namespace bellows::scheduler
