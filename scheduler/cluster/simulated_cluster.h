// SPDX-License-Identifier: Apache-2.0
// A cluster that is only arithmetic, with a time of its own: what a test, or a simulation, does
// with it happens at once and the same way each time. It grants whole nodes, in the order of
// priority, as soon as there are enough that fit.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scheduler/cluster/cluster.h"

namespace bellows::scheduler {

/// Passes when it is waited for; what was planned happens on the way.
class SimulatedTime final : public Pace {
 public:
  Time now() const override { return now_; }
  /// Runs what is due until then. False once `stop` was called.
  bool wait(Seconds time) override;
  void at(Seconds from_now, std::function<void()> event);
  void stop() { stopped_ = true; }

 private:
  Time now_{std::chrono::seconds(1'000'000)};
  std::multimap<Time, std::function<void()>> events_;
  bool stopped_ = false;
};

class SimulatedCluster final : public Cluster {
 public:
  explicit SimulatedCluster(SimulatedTime& time) : time_(time) {}

  // What it is made of, and what befalls it.
  void add_node(const std::string& name, std::set<std::string> partitions,
                std::set<std::string> features = {});
  /// Runs at once on these nodes, as the user `user`.
  JobId start_job(const std::vector<std::string>& nodes, const std::string& partition,
                  std::uint32_t user = 1000);
  JobId queue_job(int nodes, const std::string& partition, std::uint32_t priority);
  JobView& edit(JobId id) { return jobs_.at(id); }
  void end_job(JobId id, const std::string& reason);
  void forget_job(JobId id) { jobs_.erase(id); }
  /// The node fails: its jobs go on without it.
  void lose_node(const std::string& name);
  void set_node(const std::string& name, NodeState state) { nodes_.at(name).state = state; }
  /// Gives nodes to those who wait.
  void schedule();

  ClusterRules settings{
      .name = "simulated", .expansion = true, .kill_wait = std::chrono::seconds(5)};
  bool grants = true;               // false: everybody waits
  bool reachable = true;            // false: no call comes through
  bool loses_answers = false;       // calls are done, and then fail as if nobody had heard them
  bool forgets_expansions = false;  // what is to expand a job is granted, and cannot be merged
  std::string refuses_expansion, refuses_bricks;  // "" or why
  std::string refuses_merging;
  std::vector<std::string> log;  // "cancel 7", "shrink 1 n1,n2", "merge 1 8", …

  ClusterRules rules() override;
  std::vector<JobView> jobs() override;
  JobView job(JobId id) override;
  std::vector<NodeView> nodes() override;
  JobId expand(const JobView& base, const NodeRequest& nodes) override;
  void merge(JobId base, JobId expansion) override;
  JobId submit_brick(const BrickRequest& brick) override;
  void cancel(JobId id) override;
  void shrink(JobId id, const std::vector<std::string>& keep) override;

 private:
  void check_reachable() const;
  void may_lose_answer() const;
  JobView& existing(JobId id);
  JobId queue(JobView job, const NodeRequest& nodes);
  bool free(const std::string& node) const;

  SimulatedTime& time_;
  std::map<std::string, NodeView> nodes_;
  std::map<JobId, JobView> jobs_;
  std::set<JobId> forgotten_;  // what they expand
  JobId next_ = 1;
};

}  // namespace bellows::scheduler
