// SPDX-License-Identifier: Apache-2.0
#include "scheduler/cluster/simulated_cluster.h"

#include <algorithm>
#include <ranges>

#include "scheduler/cluster/node_list.h"
#include "scheduler/policy/policy.h"

namespace bellows::scheduler {
namespace {

using Kind = ClusterError::Kind;

bool alive(const JobView& job) { return job.state == JobState::running; }

}  // namespace

bool SimulatedTime::wait(Seconds time) {
  const Time until = now_ + std::chrono::ceil<Time::duration>(time);
  while (!events_.empty() && events_.begin()->first <= until && !stopped_) {
    const auto event = events_.extract(events_.begin());
    now_ = std::max(now_, event.key());
    event.mapped()();
  }
  now_ = std::max(now_, until);
  return !stopped_;
}

void SimulatedTime::at(Seconds from_now, std::function<void()> event) {
  events_.emplace(now_ + std::chrono::ceil<Time::duration>(from_now), std::move(event));
}

void SimulatedCluster::check_reachable() const {
  if (!reachable) throw ClusterError(Kind::unreachable, "no answer from the controller");
}

void SimulatedCluster::may_lose_answer() const {
  if (loses_answers) throw ClusterError(Kind::unreachable, "the answer was lost");
}

JobView& SimulatedCluster::existing(JobId id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) throw ClusterError(Kind::unknown_job, "there is no such job");
  return found->second;
}

void SimulatedCluster::add_node(const std::string& name, std::set<std::string> partitions,
                                std::set<std::string> features) {
  NodeView node;
  node.name = name;
  node.state = NodeState::idle;
  node.cpus = node.free_cpus = 4;
  node.partitions = std::move(partitions);
  node.features = std::move(features);
  nodes_[name] = std::move(node);
}

JobId SimulatedCluster::start_job(const std::vector<std::string>& nodes,
                                  const std::string& partition, std::uint32_t user) {
  JobView job;
  job.id = next_++;
  job.user = user;
  job.state = JobState::running;
  job.partition = partition;
  job.name = "job";
  job.nodes = nodes;
  job.least_nodes = static_cast<int>(nodes.size());
  job.batch_host = nodes.at(0);
  job.shape = {.cpus = 4, .tasks = 0, .exclusive = true, .memory = 0, .gres = "", .features = ""};
  jobs_[job.id] = job;
  return job.id;
}

JobId SimulatedCluster::queue_job(int nodes, const std::string& partition, std::uint32_t priority) {
  JobView job;
  job.user = 1;
  job.partition = partition;
  job.shape.exclusive = true;
  job.priority = priority;
  return queue(std::move(job), {.count = nodes, .names = {}, .exclude = {}});
}

JobId SimulatedCluster::queue(JobView job, const NodeRequest& nodes) {
  job.id = next_++;
  job.state = JobState::pending;
  job.reason = "Resources";
  job.eligible = true;
  job.least_nodes = nodes.count;
  job.wants = nodes.names;
  job.wants_not = nodes.exclude;
  const JobId id = job.id;
  jobs_[id] = std::move(job);
  schedule();
  return id;
}

void SimulatedCluster::end_job(JobId id, const std::string& reason) {
  JobView& job = jobs_.at(id);
  job.state = JobState::ended;
  job.reason = reason;
  job.nodes.clear();
  schedule();
}

void SimulatedCluster::lose_node(const std::string& name) {
  nodes_.at(name).state = NodeState::down;
  for (auto& [id, job] : jobs_) std::erase(job.nodes, name);
}

bool SimulatedCluster::free(const std::string& node) const {
  return nodes_.at(node).state == NodeState::idle &&
         std::ranges::none_of(jobs_, [&](const auto& entry) {
           return alive(entry.second) &&
                  std::ranges::find(entry.second.nodes, node) != entry.second.nodes.end();
         });
}

void SimulatedCluster::schedule() {
  if (!grants) return;
  std::vector<JobView*> waiting;
  for (auto& [id, job] : jobs_) {
    if (job.state == JobState::pending && job.eligible) waiting.push_back(&job);
  }
  std::ranges::stable_sort(waiting, std::greater<>(), &JobView::priority);
  std::vector<NodeView> views;
  for (const auto& [name, node] : nodes_) views.push_back(node);
  for (JobView* job : waiting) {
    std::vector<std::string> given;
    for (const std::string& name : nodes_for(*job, views)) {
      if (free(name) && static_cast<int>(given.size()) < job->least_nodes) given.push_back(name);
    }
    if (static_cast<int>(given.size()) < job->least_nodes) continue;
    job->state = JobState::running;
    job->nodes = std::move(given);
    if (job->comment.starts_with("bellows brick")) job->batch_host = job->nodes[0];
  }
}

ClusterRules SimulatedCluster::rules() {
  check_reachable();
  return settings;
}

std::vector<JobView> SimulatedCluster::jobs() {
  check_reachable();
  schedule();
  std::vector<JobView> views;
  for (const auto& [id, job] : jobs_) views.push_back(job);
  return views;
}

JobView SimulatedCluster::job(JobId id) {
  check_reachable();
  schedule();
  return existing(id);
}

std::vector<NodeView> SimulatedCluster::nodes() {
  check_reachable();
  std::vector<NodeView> views;
  for (const auto& [name, node] : nodes_) {
    views.push_back(node);
    if (node.state == NodeState::idle && !free(name)) views.back().state = NodeState::allocated;
  }
  return views;
}

JobId SimulatedCluster::expand(const JobView& base, const NodeRequest& nodes) {
  check_reachable();
  if (!refuses_expansion.empty()) throw ClusterError(Kind::refused, refuses_expansion);
  JobView job = base;
  job.nodes.clear();
  job.batch_host.clear();
  job.comment = expansion_comment(base.het_leader.value_or(base.id));
  job.priority = 100;
  const JobId id = queue(std::move(job), nodes);
  if (forgets_expansions) forgotten_.insert(id);
  log.push_back("expand " + std::to_string(base.id));
  may_lose_answer();
  return id;
}

void SimulatedCluster::merge(JobId base, JobId expansion) {
  check_reachable();
  JobView& from = existing(expansion);
  if (from.state != JobState::running) throw ClusterError(Kind::refused, "it does not run");
  if (!refuses_merging.empty()) throw ClusterError(Kind::refused, refuses_merging);
  if (forgotten_.contains(expansion)) throw ClusterError(Kind::unknown_job, "it expands no job");
  JobView& into = existing(base);
  into.nodes.insert(into.nodes.end(), from.nodes.begin(), from.nodes.end());
  from.nodes.clear();
  from.state = JobState::ended;
  log.push_back("merge " + std::to_string(base) + " " + std::to_string(expansion));
  may_lose_answer();
}

JobId SimulatedCluster::submit_brick(const BrickRequest& brick) {
  check_reachable();
  if (!refuses_bricks.empty()) throw ClusterError(Kind::refused, refuses_bricks);
  JobView job;
  job.user = existing(brick.base).user;
  job.name = brick.name;
  job.comment = brick.comment;
  job.partition = brick.partition;
  job.shape = brick.shape;
  job.priority = 50;
  const JobId id = queue(std::move(job), brick.nodes);
  log.push_back("brick " + brick.partition);
  may_lose_answer();
  return id;
}

void SimulatedCluster::cancel(JobId id) {
  check_reachable();
  log.push_back("cancel " + std::to_string(id));
  const auto found = jobs_.find(id);
  if (found != jobs_.end() && found->second.state != JobState::ended) end_job(id, "CANCELLED");
  may_lose_answer();
}

void SimulatedCluster::shrink(JobId id, const std::vector<std::string>& keep) {
  check_reachable();
  JobView& job = existing(id);
  if (!job.batch_host.empty() && std::ranges::find(keep, job.batch_host) == keep.end()) {
    throw ClusterError(Kind::refused, "the batch host must stay");
  }
  job.nodes = keep;
  log.push_back("shrink " + std::to_string(id) + " " + join(keep));
  schedule();
  may_lose_answer();
}

}  // namespace bellows::scheduler
