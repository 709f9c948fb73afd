// SPDX-License-Identifier: Apache-2.0
#include "scheduler/broker/holdings.h"

#include <algorithm>
#include <ranges>

#include "scheduler/cluster/node_list.h"

namespace bellows::scheduler {
namespace {

bool alive(const JobView& job) {
  return job.state == JobState::running || job.state == JobState::suspended;
}

}  // namespace

bool Holdings::running() const { return !base.empty() && alive(base[0]); }

std::vector<std::string> Holdings::nodes() const {
  std::vector<std::string> names;
  for (const JobView& job : base) {
    if (alive(job)) names.insert(names.end(), job.nodes.begin(), job.nodes.end());
  }
  for (const JobView& job : bricks) {
    if (alive(job)) names.insert(names.end(), job.nodes.begin(), job.nodes.end());
  }
  return names;
}

const JobView* Holdings::holder(const std::string& node) const {
  for (const JobView& job : base) {
    if (has(job.nodes, node)) return &job;
  }
  for (const JobView& job : bricks) {
    if (alive(job) && has(job.nodes, node)) return &job;
  }
  return nullptr;
}

std::set<std::string> Holdings::fixed() const {
  std::set<std::string> names;
  for (const JobView& job : base) {
    if (!job.batch_host.empty()) names.insert(job.batch_host);
  }
  return names;
}

Holdings find_holdings(const std::vector<JobView>& jobs, JobId base) {
  Holdings found;
  std::uint32_t user = 0;
  for (const JobView& job : jobs) {
    if (job.id != base && job.het_leader != base) continue;
    found.base.push_back(job);
    if (job.id == base) user = job.user;
  }
  std::ranges::sort(found.base, {}, &JobView::id);
  if (found.base.empty() || found.base[0].id != base) {
    throw ClusterError(ClusterError::Kind::unknown_job,
                       "there is no job " + std::to_string(base) + " any more");
  }
  for (const JobView& job : jobs) {
    if (job.user != user) continue;
    const bool brick = job.comment == brick_comment(base);
    if (!brick && job.comment != expansion_comment(base)) continue;
    if (job.state == JobState::ended || job.state == JobState::ending) {
      if (brick) found.over.insert(job.id);
    } else {
      (brick ? found.bricks : found.expansions).push_back(job);
    }
  }
  std::ranges::sort(found.bricks, {}, &JobView::id);
  return found;
}

std::vector<std::string> choose_to_go(const Holdings& holdings, const RunStatus& run, int count) {
  std::vector<std::string> order;
  for (const JobView& brick : std::views::reverse(holdings.bricks)) {
    if (!alive(brick)) continue;
    for (const std::string& node : std::views::reverse(brick.nodes)) {
      if (node != brick.batch_host) order.push_back(node);
    }
    if (has(brick.nodes, brick.batch_host)) order.push_back(brick.batch_host);
  }
  // Slurm sorts a job's nodes; bellows-run knows in which order they came.
  std::vector<std::string> own;
  for (const JobView& job : holdings.base) {
    for (const std::string& node : job.nodes) {
      const auto known = [&](const RunNode& one) { return one.name == node; };
      if (std::ranges::none_of(run.nodes, known)) own.push_back(node);  // nothing runs there
    }
  }
  for (const RunNode& node : std::views::reverse(run.nodes)) {
    const JobView* job = holdings.holder(node.name);
    if (job != nullptr && job->comment != brick_comment(holdings.base[0].id)) {
      own.push_back(node.name);
    }
  }
  const std::set<std::string> fixed = holdings.fixed();
  std::map<JobId, std::size_t> left;
  for (const JobView& job : holdings.base) left[job.id] = job.nodes.size();
  for (const std::string& node : own) {
    const JobView* job = holdings.holder(node);
    if (fixed.contains(node) || job == nullptr || left[job->id] <= 1) continue;
    --left[job->id];
    order.push_back(node);
  }
  if (order.size() > static_cast<std::size_t>(count)) order.resize(static_cast<std::size_t>(count));
  return order;
}

std::string why_not_give_back(const Holdings& holdings, const std::vector<std::string>& nodes) {
  std::map<JobId, std::size_t> going;
  for (const std::string& node : nodes) {
    const JobView* job = holdings.holder(node);
    if (job == nullptr) return "the job does not have node " + node;
    if (holdings.fixed().contains(node)) {
      return "node " + node + " runs the job's script: it cannot be given back";
    }
    ++going[job->id];
  }
  for (const JobView& job : holdings.base) {
    if (going[job.id] > 0 && going[job.id] >= job.nodes.size()) {
      return "allocation " + std::to_string(job.id) + " must keep one of its nodes";
    }
  }
  for (const JobView& brick : holdings.bricks) {
    const bool all = going[brick.id] >= brick.nodes.size();
    if (going[brick.id] == 0 || all || !has(nodes, brick.batch_host)) continue;
    std::vector<std::string> others;
    for (const std::string& node : brick.nodes) {
      if (!has(nodes, node)) others.push_back(node);
    }
    return "node " + brick.batch_host + " holds companion job " + std::to_string(brick.id) +
           " together: " + join(others) + " would have to go as well";
  }
  return "";
}

}  // namespace bellows::scheduler
