// SPDX-License-Identifier: Apache-2.0
#include "scheduler/policy/policy.h"

#include <algorithm>
#include <charconv>
#include <ranges>
#include <sstream>
#include <stdexcept>

#include "scheduler/cluster/node_list.h"
#include "scheduler/policy/worth.h"

namespace bellows::scheduler {
namespace {

// "fast&big", "fast,big": all of them are wanted; alternatives and counts are not looked into.
bool has_features(const NodeView& node, const std::string& wanted) {
  if (wanted.find_first_of("|[]*()") != std::string::npos) return true;
  std::string rest = wanted;
  std::ranges::replace(rest, '&', ',');
  std::istringstream parts(rest);
  for (std::string part; std::getline(parts, part, ',');) {
    if (!part.empty() && !node.features.contains(part)) return false;
  }
  return true;
}

bool usable(const NodeView& node) {
  return node.state != NodeState::down && node.state != NodeState::leaving;
}

struct Claim {
  int missing = 0;                // nodes, beside those that are free
  std::vector<std::string> free;  // that it will take
};

Claim claim_of(const JobView& pending, const Outlook& outlook, const std::set<std::string>& taken) {
  const std::set<std::string> fit = nodes_for(pending, outlook.nodes);
  Claim claim;
  claim.missing = nodes_needed(pending, outlook.nodes);
  for (const NodeView& node : outlook.nodes) {
    if (claim.missing == 0) break;
    if (!fit.contains(node.name) || taken.contains(node.name) || !has_room(node, pending)) continue;
    claim.free.push_back(node.name);
    --claim.missing;
  }
  return claim;
}

struct Unclaimed {
  std::size_t count = 0;
  std::size_t place = 0;  // in Outlook::idle
};

// The place that has most idle nodes which are not about to be taken by a pending job.
Unclaimed unclaimed(const Outlook& outlook) {
  std::set<std::string> taken;
  for (const JobView& job : outlook.pending) {
    const Claim claim = claim_of(job, outlook, taken);
    if (claim.missing == 0) taken.insert(claim.free.begin(), claim.free.end());
  }
  Unclaimed best;
  for (std::size_t i = 0; i < outlook.idle.size(); ++i) {
    const IdleNodes& place = outlook.idle[i];
    const auto free = static_cast<std::size_t>(std::ranges::count_if(
        place.names, [&](const std::string& node) { return !taken.contains(node); }));
    const std::size_t count = std::min(free, place.most);
    if (count > best.count) best = {count, i};
  }
  return best;
}

IdleNodes idle_nodes(const Outlook& seen, const std::string& partition,
                     const std::string& features) {
  IdleNodes idle{{}, seen.nodes.size()};
  for (const NodeView& node : seen.nodes) {
    if (node.state == NodeState::idle && node.partitions.contains(partition) &&
        has_features(node, features) && !has(seen.held, node.name)) {
      idle.names.push_back(node.name);
    }
  }
  return idle;
}

std::vector<std::string> to_give_back(const Outlook& outlook, int count) {
  std::vector<std::string> nodes;
  for (const std::string& node : outlook.held) {
    if (static_cast<int>(nodes.size()) == count) break;
    if (!outlook.fixed.contains(node)) nodes.push_back(node);
  }
  return nodes;
}

std::string count_text(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

const char* text(JobState state) {
  switch (state) {
    case JobState::pending:
      return "pending";
    case JobState::running:
      return "running";
    case JobState::suspended:
      return "suspended";
    case JobState::ending:
      return "ending";
    default:
      return "ended";
  }
}

const char* text(NodeState state) {
  switch (state) {
    case NodeState::idle:
      return "idle";
    case NodeState::mixed:
      return "mixed";
    case NodeState::allocated:
      return "allocated";
    case NodeState::leaving:
      return "draining";
    default:
      return "down";
  }
}

std::string brick_comment(JobId base) { return "bellows brick of " + std::to_string(base); }
std::string expansion_comment(JobId base) { return "bellows expansion of " + std::to_string(base); }
bool is_companion(const JobView& job, JobId base) {
  return job.comment == brick_comment(base) || job.comment == expansion_comment(base);
}

int allowed_size(const Bounds& bounds, int wanted) {
  if (wanted >= bounds.most) return bounds.most;
  if (wanted <= bounds.least) return bounds.least;
  return bounds.least + (wanted - bounds.least) / bounds.step * bounds.step;
}

std::string why_not_size(const Bounds& bounds, int nodes) {
  const std::string range = std::to_string(bounds.least) + " to " + std::to_string(bounds.most);
  if (nodes < bounds.least || nodes > bounds.most) {
    return "the job may have " + range + " nodes, not " + std::to_string(nodes);
  }
  if (allowed_size(bounds, nodes) != nodes) {
    return "the job may have " + range + " nodes in steps of " + std::to_string(bounds.step) +
           ", not " + std::to_string(nodes);
  }
  return "";
}

std::set<std::string> nodes_for(const JobView& pending, const std::vector<NodeView>& nodes) {
  std::set<std::string> names;
  std::set<std::string> partitions;
  std::istringstream list(pending.partition);
  for (std::string one; std::getline(list, one, ',');) partitions.insert(one);
  for (const NodeView& node : nodes) {
    const bool in_partition = std::ranges::any_of(
        partitions, [&](const std::string& one) { return node.partitions.contains(one); });
    if (usable(node) && in_partition && has_features(node, pending.shape.features) &&
        !has(pending.wants_not, node.name)) {
      names.insert(node.name);
    }
  }
  // Named nodes must be among them; where they are all that is wanted, no others help.
  if (static_cast<int>(pending.wants.size()) >= std::max(pending.least_nodes, 1)) {
    std::erase_if(names, [&](const std::string& name) { return !has(pending.wants, name); });
  }
  return names;
}

bool has_room(const NodeView& node, const JobView& pending) {
  if (node.state == NodeState::idle) return true;
  return node.state == NodeState::mixed && !pending.shape.exclusive &&
         node.free_cpus >= std::max(pending.shape.cpus, 1);
}

std::vector<JobView> queue_of(const std::vector<JobView>& jobs, const std::set<JobId>& elastic) {
  std::set<std::string> companions;
  for (const JobId base : elastic) {
    companions.insert(brick_comment(base));
    companions.insert(expansion_comment(base));
  }
  std::vector<JobView> queue;
  std::ranges::copy_if(jobs, std::back_inserter(queue), [&](const JobView& job) {
    return job.state == JobState::pending && job.eligible && !companions.contains(job.comment);
  });
  std::ranges::stable_sort(queue, std::greater<>(), &JobView::priority);
  return queue;
}

int nodes_needed(const JobView& pending, const std::vector<NodeView>& nodes) {
  int largest = 1;
  const std::set<std::string> fit = nodes_for(pending, nodes);
  for (const NodeView& node : nodes) {
    if (fit.contains(node.name)) largest = std::max(largest, node.cpus);
  }
  return std::max({1, pending.least_nodes, (pending.least_cpus + largest - 1) / largest});
}

Outlook outlook(const Bounds& bounds, const std::vector<JobView>& own,
                const std::set<std::string>& fixed,
                const std::vector<protocol::CompanionPlace>& companions,
                const std::vector<JobView>& jobs, const std::vector<NodeView>& nodes) {
  Outlook seen;
  seen.bounds = bounds;
  seen.fixed = fixed;
  seen.nodes = nodes;
  for (const JobView& allocation : own) {
    for (const std::string& node : allocation.nodes) seen.held.push_back(node);
  }
  std::ranges::reverse(seen.held);
  seen.pending = queue_of(jobs, own.empty() ? std::set<JobId>{} : std::set<JobId>{own[0].id});
  std::erase_if(seen.pending, [&](const JobView& job) {
    return std::ranges::find(own, job.id, &JobView::id) != own.end();
  });
  if (own.empty()) return seen;
  const JobView& base = own[0];
  seen.idle.push_back(idle_nodes(seen, base.partition, base.shape.features));
  for (const protocol::CompanionPlace& place : companions) {
    const std::string& partition = place.partition.empty() ? base.partition : place.partition;
    IdleNodes idle =
        idle_nodes(seen, partition, place.features.empty() ? base.shape.features : place.features);
    if (place.most) {
      std::size_t there = 0;  // as companions
      for (const JobView& job : own) {
        if (job.partition == partition && job.comment == brick_comment(base.id)) {
          there += job.nodes.size();
        }
      }
      const auto most = static_cast<std::size_t>(*place.most);
      idle.most = most > there ? most - there : 0;
    }
    seen.idle.push_back(std::move(idle));
  }
  return seen;
}

Decision yield_to_pending(const Outlook& outlook) {
  std::set<std::string> taken;
  const int spare = static_cast<int>(outlook.held.size()) - outlook.bounds.least;
  for (const JobView& job : outlook.pending) {
    const Claim claim = claim_of(job, outlook, taken);
    if (claim.missing == 0) {  // it starts without our help
      taken.insert(claim.free.begin(), claim.free.end());
      continue;
    }
    const std::set<std::string> fit = nodes_for(job, outlook.nodes);
    Decision decision;
    for (const std::string& node : outlook.held) {
      if (static_cast<int>(decision.give_back.size()) == claim.missing) break;
      if (fit.contains(node) && !outlook.fixed.contains(node)) decision.give_back.push_back(node);
    }
    if (static_cast<int>(decision.give_back.size()) < claim.missing) continue;
    // The size that is left must be an allowed one.
    const int left =
        allowed_size(outlook.bounds, static_cast<int>(outlook.held.size()) - claim.missing);
    const std::size_t give = outlook.held.size() - static_cast<std::size_t>(left);
    if (claim.missing > spare || static_cast<int>(give) < claim.missing) continue;
    for (const std::string& node : outlook.held) {
      if (decision.give_back.size() >= give) break;
      if (!outlook.fixed.contains(node) && !has(decision.give_back, node)) {
        decision.give_back.push_back(node);
      }
    }
    if (decision.give_back.size() < give) continue;
    decision.why = "job " + std::to_string(job.id) + " can start with " +
                   count_text(decision.give_back.size(), "node") + " of this one";
    return decision;
  }
  return {};
}

Decision turbo(const Outlook& outlook, const std::map<int, Speed>& speeds) {
  Decision decision = yield_to_pending(outlook);
  if (!decision.nothing()) return decision;
  const int now = static_cast<int>(outlook.held.size());
  const Unclaimed free = unclaimed(outlook);
  const int target = gaining_size(outlook.hints, speeds, outlook.bounds, now,
                                  allowed_size(outlook.bounds, now + static_cast<int>(free.count)));
  if (target <= now) return {};
  decision.grow = target - now;
  decision.companion = free.place;
  decision.why = count_text(static_cast<std::size_t>(decision.grow), "idle node");
  return decision;
}

Decision economic(const Outlook& outlook, const EconomicSettings& settings,
                  const std::map<int, Speed>& speeds, Time since, Time now) {
  Decision decision = yield_to_pending(outlook);
  if (!decision.nothing()) return decision;
  const int size = static_cast<int>(outlook.held.size());
  const auto here = speeds.find(size);
  if (here == speeds.end() || now - since < settings.settle) return {};
  // Whether going from `less` nodes to `more` was worth it.
  const auto gain = [](int less, double slow, int more, double fast) {
    return slow <= 0 ? 1.0 : (fast - slow) / (more - less) / (slow / less);
  };
  if (here != speeds.begin()) {
    const auto below = std::prev(here);
    const double gained =
        gain(below->first, below->second.samples_per_second, size, here->second.samples_per_second);
    if (gained < settings.least_gain && below->first >= outlook.bounds.least) {
      decision.give_back = to_give_back(outlook, size - below->first);
      decision.why = "the newest nodes bring " + std::to_string(static_cast<int>(gained * 100)) +
                     "% of what the others do";
      return decision;
    }
  }
  const bool says = outlook.hints && settings.least_gain == kEconomicGain;
  const int predicted = says ? allowed_size(outlook.bounds, outlook.hints->economic_nodes) : size;
  if (says && predicted < size && here == speeds.begin()) {  // no smaller size was measured
    decision.give_back = to_give_back(outlook, size - predicted);
    decision.why = "the job predicts that " +
                   count_text(static_cast<std::size_t>(predicted), "node") +
                   (predicted == 1 ? " pays" : " pay") + ", and no more";
    if (static_cast<int>(decision.give_back.size()) == size - predicted) return decision;
    decision = {};
  }
  const int next = allowed_size(outlook.bounds, size + outlook.bounds.step);
  const Unclaimed free = unclaimed(outlook);
  if (next <= size || static_cast<int>(free.count) < next - size) return {};
  const auto above = speeds.lower_bound(next);
  if (above != speeds.end() && now - above->second.measured < settings.retry &&
      gain(size, here->second.samples_per_second, above->first, above->second.samples_per_second) <
          settings.least_gain) {
    return {};
  }
  std::map<int, Speed> recent = speeds;
  std::erase_if(recent, [&](const auto& entry) {
    return entry.first != size && now - entry.second.measured >= settings.retry;
  });
  if (!pays(outlook.hints, recent, size, next - size, settings.least_gain)
           .value_or(gains(outlook.hints, recent, size, next - size))) {
    return {};
  }
  const int reach = allowed_size(outlook.bounds, size + static_cast<int>(free.count));
  decision.grow = std::max(next, std::min(predicted, reach)) - size;
  decision.companion = free.place;
  decision.why = "the nodes pay so far";
  if (predicted > size) decision.why += ", and the job predicts that more do";
  return decision;
}

EconomicSettings economic_settings(const std::string& arguments) {
  EconomicSettings settings;
  std::istringstream parts(arguments);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    double number = 0;
    const auto [after, failed] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = failed == std::errc() && after == value.data() + value.size() &&
                           number >= 0 && number <= 1e6;
    if (name != "gain" && name != "settle" && name != "retry") {
      throw std::invalid_argument("policy argument '" + part +
                                  "': must be gain=, settle= or retry=");
    }
    if (!is_number) {
      throw std::invalid_argument("policy argument '" + part +
                                  "': must be a number from 0 to 1000000");
    }
    const auto seconds = std::chrono::seconds(static_cast<long>(number));
    if (name == "gain") settings.least_gain = number;
    if (name == "settle") settings.settle = seconds;
    if (name == "retry") settings.retry = seconds;
  }
  return settings;
}

}  // namespace bellows::scheduler
