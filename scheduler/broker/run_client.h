// SPDX-License-Identifier: Apache-2.0
// bellows-run as its broker sees it: the job's world, and requests to take nodes in and let them
// go.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "protocol/job_event.h"
#include "scheduler/cluster/cluster.h"
#include "scheduler/policy/elastic_job.h"

namespace bellows::scheduler {

struct RunNode {
  std::string name;
  std::string job;  // the Slurm job that has it, "" for the base
  int ranks = 0;
  bool added = false;  // at a broker's request
  bool going = false;  // nothing is to start there any more
  bool agent = false;  // runs there, or is about to
};

struct RunStatus {
  std::string state;  // starting, steady, changing, ending, reattaching
  int ranks = 0, least = 1, most = 1;
  int ranks_per_node = 1;
  double samples_per_second = 0;
  std::optional<double> samples_left;  // to the end of the run, where the program knows
  std::int64_t step = 0;
  LiveView live;
  std::optional<SizeHints> hints;  // what the program says of its size
  Seconds start_timeout{60};
  std::vector<RunNode> nodes;  // in the order in which they came
};

struct NewNode {
  std::string name;
  int cpus = 1, ranks = 1;
  std::string job;  // "" for the base
};

/// What became of new nodes; ranks take steps on those that were added.
struct Joined {
  std::vector<std::string> added;
  std::vector<std::pair<std::string, std::string>> failed;  // name, reason
  Seconds agents{0}, warm_up{0}, join{0};                   // one after the other
};

class RunError : public std::runtime_error {
 public:
  enum class Kind { refused, overdue, gone };
  RunError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// All calls block, at most for their limit, and throw RunError.
class RunClient {
 public:
  virtual ~RunClient() = default;
  virtual RunStatus status() = 0;
  virtual Joined add_nodes(const std::vector<NewNode>& nodes, Seconds limit) = 0;
  /// Returns when nothing of the job runs there any more. `gone`: Slurm has taken them; their ranks
  /// are not asked to leave. Nodes that bellows-run does not know are no error.
  virtual void remove_nodes(const std::vector<std::string>& nodes, bool gone, Seconds limit) = 0;
  /// For the job's events; number, time, epoch and ranks are bellows-run's to give.
  virtual void note(const protocol::JobEvent& event) = 0;
};

/// By the control socket.
std::unique_ptr<RunClient> run_client(const std::string& socket);

}  // namespace bellows::scheduler
