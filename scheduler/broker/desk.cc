// SPDX-License-Identifier: Apache-2.0
#include "scheduler/broker/desk.h"

#include <algorithm>
#include <ranges>

#include "scheduler/cluster/node_list.h"

namespace bellows::scheduler {
namespace {

using Kind = ClusterError::Kind;

void give_back_from(Desk& desk, const JobView& job, const std::vector<std::string>& nodes) {
  std::vector<std::string> keep;
  std::ranges::copy_if(job.nodes, std::back_inserter(keep), [&](const std::string& node) {
    return std::ranges::find(nodes, node) == nodes.end();
  });
  if (keep.size() == job.nodes.size()) return;
  if (job.comment == brick_comment(desk.settings.base) && keep.empty()) {
    desk.cluster.cancel(job.id);
  } else if (!keep.empty()) {
    desk.cluster.shrink(job.id, keep);
  }
}

}  // namespace

void note(Desk& desk, const protocol::JobEvent& event) {
  try {
    desk.run.note(event);
  } catch (const RunError&) {  // it ends, or another is about to take over
  }
}

void cancel(Desk& desk, JobId job) {
  try {
    if (is_companion(desk.cluster.job(job), desk.settings.base)) desk.cluster.cancel(job);
  } catch (const ClusterError& failed) {
    if (failed.kind() == Kind::unreachable) {
      desk.to_cancel.insert(job);
      return;
    }
    if (failed.kind() == Kind::refused) desk.say(failed.what());
  }
  desk.to_cancel.erase(job);
}

void give_back(Desk& desk, const std::vector<std::string>& nodes) {
  if (nodes.empty()) return;
  for (const std::string& node : nodes) desk.to_give_back.insert(node);
  try {
    const Holdings now = desk.holdings();
    std::vector<const JobView*> jobs;
    for (const JobView& job : now.base) jobs.push_back(&job);
    for (const JobView& job : now.bricks) jobs.push_back(&job);
    for (const JobView* job : jobs) give_back_from(desk, *job, nodes);
    for (const std::string& node : nodes) {
      desk.to_give_back.erase(node);
      desk.given_back[node] = desk.now();
    }
  } catch (const ClusterError& failed) {
    if (failed.kind() == Kind::unreachable) return;
    for (const std::string& node : nodes) desk.to_give_back.erase(node);
    if (failed.kind() == Kind::refused) {
      desk.say("nodes " + join(nodes) + " could not be given back: " + failed.what());
    }
  }
}

void settle_debts(Desk& desk) {
  for (const JobId job : std::set<JobId>(desk.to_cancel)) cancel(desk, job);
  if (!desk.to_give_back.empty()) {
    give_back(desk, {desk.to_give_back.begin(), desk.to_give_back.end()});
  }
}

}  // namespace bellows::scheduler
