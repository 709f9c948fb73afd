// SPDX-License-Identifier: Apache-2.0
#include "scheduler/picture/occupancy.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace bellows::scheduler {
namespace {

// To whom the job's nodes belong. A comment is its user's to write, so it counts among one user's
// jobs only.
JobId owner_of(const JobView& job, const std::map<JobId, const JobView*>& by_id) {
  if (job.het_leader) return *job.het_leader;
  if (!job.comment.starts_with("bellows ")) return job.id;
  const std::size_t space = job.comment.rfind(' ');
  JobId base = 0;
  std::from_chars(job.comment.data() + space + 1, job.comment.data() + job.comment.size(), base);
  const auto found = by_id.find(base);
  const bool own = found != by_id.end() && found->second->user == job.user;
  return own && is_companion(job, base) ? base : job.id;
}

std::vector<std::string> without(const std::set<std::string>& all,
                                 const std::set<std::string>& these) {
  std::vector<std::string> rest;
  std::ranges::set_difference(all, these, std::back_inserter(rest));
  return rest;
}

}  // namespace

std::vector<NodesChange> Occupancy::update(const std::vector<JobView>& jobs,
                                           const std::set<JobId>& elastic) {
  std::map<JobId, const JobView*> by_id;
  for (const JobView& job : jobs) by_id[job.id] = &job;
  std::map<JobId, Holder> now;
  for (const JobView& job : jobs) {
    if (job.state == JobState::pending || job.state == JobState::ended || job.nodes.empty()) {
      continue;
    }
    const JobId owner = owner_of(job, by_id);
    Holder& holder = now[owner];
    holder.nodes.insert(job.nodes.begin(), job.nodes.end());
    const auto base = by_id.find(owner);
    const JobView& known = base == by_id.end() ? job : *base->second;
    holder.name = known.name;
    holder.partition = known.partition;
    holder.user = known.user;
    holder.elastic = elastic.contains(owner);
  }
  std::vector<NodesChange> changes;
  const auto note = [&](JobId id, const Holder& holder, const Holder& before) {
    changes.push_back({id,
                       holder.name,
                       holder.partition,
                       holder.user,
                       holder.elastic,
                       {holder.nodes.begin(), holder.nodes.end()},
                       without(holder.nodes, before.nodes),
                       without(before.nodes, holder.nodes)});
  };
  for (auto& [id, holder] : now) {
    const auto before = holders_.find(id);
    const Holder was = before == holders_.end() ? Holder{} : before->second;
    holder.elastic = holder.elastic || was.elastic;
    if (holder.nodes != was.nodes || holder.elastic != was.elastic) note(id, holder, was);
  }
  for (const auto& [id, before] : holders_) {
    if (now.contains(id)) continue;
    Holder over = before;
    over.nodes.clear();
    note(id, over, before);
  }
  std::ranges::sort(changes, {}, &NodesChange::job);
  holders_ = std::move(now);
  return changes;
}

}  // namespace bellows::scheduler
