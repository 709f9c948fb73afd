// SPDX-License-Identifier: Apache-2.0
#include "scheduler/broker/resize.h"

#include <algorithm>
#include <ranges>

#include "scheduler/broker/offers.h"
#include "scheduler/cluster/node_list.h"

namespace bellows::scheduler {
namespace {

using Kind = ClusterError::Kind;

constexpr Seconds kCallLimit{20};  // for slurmctld to be back, where nobody has set another

std::vector<std::string> without(const std::vector<std::string>& all,
                                 const std::vector<std::string>& some) {
  std::vector<std::string> rest;
  std::ranges::copy_if(all, std::back_inserter(rest),
                       [&](const std::string& name) { return !has(some, name); });
  return rest;
}

Time later(Time from, Seconds time) {
  return from + std::chrono::duration_cast<Time::duration>(time);
}

// Takes the nodes out of the world, and out of the allocation.
void roll_back(Desk& desk, const std::vector<std::string>& nodes) {
  try {
    desk.run.remove_nodes(nodes, false, desk.settings.leave);
  } catch (const RunError&) {
    try {  // too few ranks would be left, say: but Slurm gets its nodes
      desk.run.remove_nodes(nodes, true, desk.settings.leave);
    } catch (const RunError& failed) {
      desk.say(std::string("nodes are given back all the same: ") + failed.what());
    }
  }
  give_back(desk, nodes);
}

// The expansion's nodes become the base's. Whether a call was done that has not been answered shows
// in the base's nodes. Throws as Cluster::merge.
void merge(Desk& desk, const JobView& base, const JobView& expansion, Time deadline) {
  const auto is_merged = [&] {
    const JobView now = desk.cluster.job(base.id);
    return std::ranges::all_of(expansion.nodes,
                               [&](const std::string& node) { return has(now.nodes, node); });
  };
  bool first = true;
  insist(desk, deadline, [&] {
    if (!first && is_merged()) return;
    first = false;
    desk.cluster.merge(base.id, expansion.id);
  });
}

// Marks the nodes of a growth for as long as it is under way.
class Arriving {
 public:
  Arriving(Desk& desk, std::vector<std::string> nodes) : desk_(desk), nodes_(std::move(nodes)) {
    desk_.arriving.insert(nodes_.begin(), nodes_.end());
    for (const std::string& node : nodes_) desk_.given_back.erase(node);
  }
  Arriving(const Arriving&) = delete;
  Arriving& operator=(const Arriving&) = delete;
  ~Arriving() {
    for (const std::string& node : nodes_) desk_.arriving.erase(node);
  }

 private:
  Desk& desk_;
  std::vector<std::string> nodes_;
};

Grant allocate(Desk& desk, const Holdings& holdings, const NodeRequest& nodes,
               std::size_t component, Time deadline, const StopWaiting& stop) {
  const ClusterRules rules = insist(desk, deadline, [&] { return desk.cluster.rules(); });
  Offers offers(desk, holdings, rules.expansion, nodes, component);
  while (true) {
    Grant grant = offers.wait(deadline, stop);
    try {
      const Time limit = std::max(deadline, later(desk.now(), kCallLimit));
      if (grant.expansion) merge(desk, holdings.base[component], grant.job, limit);
    } catch (const ClusterError& failed) {
      // (The expansion is cancelled with the other offers.)
      if (failed.kind() == Kind::unreachable) throw Refused(failed.what());
      offers.worthless(grant, failed.what(), failed.kind() == Kind::refused);
      continue;
    }
    offers.taken(grant);
    return grant;
  }
}

// Steps on nodes of a het job's other components are started through the first: "4711+1".
Joined start_ranks(Desk& desk, const Grant& grant, std::size_t component, int ranks,
                   Time deadline) {
  std::string job;
  if (!grant.expansion) job = std::to_string(grant.job.id);
  if (grant.expansion && component > 0) {
    job = std::to_string(desk.settings.base) + "+" + std::to_string(component);
  }
  std::vector<NewNode> nodes;
  nodes.reserve(grant.job.nodes.size());
  const int here = grant.job.shape.tasks > 0 ? grant.job.shape.tasks : ranks;
  for (const std::string& node : grant.job.nodes) {
    nodes.push_back({.name = node, .cpus = grant.job.shape.cpus, .ranks = here, .job = job});
  }
  return desk.run.add_nodes(nodes, std::max(Seconds(deadline - desk.now()), Seconds(1)));
}

ResizeReport to_exactly(Desk& desk, const Holdings& holdings, const std::vector<std::string>& names,
                        std::size_t component, Time deadline, const StopWaiting& stop) {
  const std::vector<std::string> held = holdings.nodes();
  const std::vector<std::string> more = without(names, held), fewer = without(held, names);
  if (const std::string why = why_not_give_back(holdings, fewer); !fewer.empty() && !why.empty()) {
    throw Refused(why);
  }
  ResizeReport report;
  report.nodes = static_cast<int>(held.size());
  if (!more.empty()) {
    report = grow(desk, {.count = static_cast<int>(more.size()), .names = more, .exclude = {}},
                  component, deadline, stop);
  }
  if (!fewer.empty()) {
    const ResizeReport shrunk = shrink(desk, fewer, deadline);
    report.removed = shrunk.removed;
    report.leave = shrunk.leave;
    report.give_back = shrunk.give_back;
    report.nodes = shrunk.nodes;
    std::ranges::copy(shrunk.remarks, std::back_inserter(report.remarks));
  }
  return report;
}

}  // namespace

void note_changes(Desk& desk, const ResizeReport& report, const std::string& text) {
  const auto event = [&](const char* kind, const std::vector<std::string>& nodes,
                         std::vector<std::pair<std::string, double>> phases) {
    if (nodes.empty()) return;
    double total = 0;
    for (const auto& [name, seconds] : phases) total += seconds;
    note(desk, {.kind = kind,
                .nodes = nodes,
                .seconds = total,
                .phases = std::move(phases),
                .text = text});
  };
  event("granted", report.added,
        {{"allocation", report.allocation.count()},
         {"agents", report.agents.count()},
         {"warm_up", report.warm_up.count()},
         {"join", report.join.count()}});
  event("returned", report.removed,
        {{"leave", report.leave.count()}, {"give_back", report.give_back.count()}});
}

ResizeReport grow(Desk& desk, NodeRequest nodes, std::size_t component, Time deadline,
                  const StopWaiting& stop) {
  const Time begun = desk.now();
  const Holdings holdings = insist(desk, deadline, [&] { return desk.holdings(); });
  if (!holdings.running()) throw Refused("the job does not run");
  const RunStatus run = desk.run.status();
  nodes.exclude = holdings.nodes();
  for (const RunNode& node : run.nodes) {
    if (!has(nodes.exclude, node.name) && node.agent) nodes.exclude.push_back(node.name);
  }
  for (const std::string& node : nodes.names) {
    if (has(nodes.exclude, node)) throw Refused("the job has node " + node + " already");
  }
  const int ranks = run.ranks + nodes.count * run.ranks_per_node;
  if (ranks > run.most) {
    throw Refused("bellows-run allows " + std::to_string(run.most) + " ranks, and " +
                  std::to_string(nodes.count) + " more nodes would make " + std::to_string(ranks));
  }
  const Grant grant = allocate(desk, holdings, nodes, component, deadline, stop);
  const Arriving arriving(desk, grant.job.nodes);
  ResizeReport report;
  report.how = grant.how;
  report.allocation = desk.now() - begun;
  Joined joined;
  try {
    joined = start_ranks(desk, grant, component, run.ranks_per_node, deadline);
  } catch (const RunError& failed) {
    roll_back(desk, grant.job.nodes);
    throw Refused("nodes " + join(grant.job.nodes) + " were given back: " + failed.what());
  }
  report.added = joined.added;
  report.agents = joined.agents;
  report.warm_up = joined.warm_up;
  report.join = joined.join;
  std::vector<std::string> failed;
  for (const auto& [node, reason] : joined.failed) {
    failed.push_back(node);
    report.remarks.push_back("node " + node + " was given back: ");
    report.remarks.back() += reason;
  }
  if (!failed.empty()) roll_back(desk, failed);
  if (joined.added.empty()) throw Refused(join(report.remarks, "; "));
  report.nodes = static_cast<int>(holdings.nodes().size() + joined.added.size());
  return report;
}

ResizeReport shrink(Desk& desk, const std::vector<std::string>& nodes, Time deadline) {
  const Holdings holdings = insist(desk, deadline, [&] { return desk.holdings(); });
  if (const std::string why = why_not_give_back(holdings, nodes); !why.empty()) throw Refused(why);
  ResizeReport report;
  const Time begun = desk.now();
  try {
    desk.run.remove_nodes(nodes, false, desk.settings.leave);
  } catch (const RunError& failed) {
    if (failed.kind() != RunError::Kind::overdue) throw Refused(failed.what());
    report.remarks.push_back("ranks did not leave in time; their nodes were taken from them");
    roll_back(desk, nodes);
  }
  const Time left = desk.now();
  report.leave = left - begun;
  give_back(desk, nodes);
  report.give_back = desk.now() - left;
  if (!desk.to_give_back.empty()) {
    report.remarks.push_back("Slurm does not answer: it gets " + join(nodes) +
                             " back when it does");
  }
  report.removed = nodes;
  report.nodes = static_cast<int>(holdings.nodes().size() - nodes.size());
  return report;
}

ResizeReport resize(Desk& desk, const SizeRequest& request, std::size_t component, Time deadline,
                    const StopWaiting& stop) {
  using What = SizeRequest::What;
  try {
    const Holdings holdings = insist(desk, deadline, [&] { return desk.holdings(); });
    if (!holdings.running()) throw Refused("the job does not run");
    const std::vector<std::string> held = holdings.nodes();
    const int now = static_cast<int>(held.size());
    const int named = static_cast<int>(request.names.size());
    const int count = named > 0 ? named : request.number;
    int target = count;
    if (request.what == What::grow) target = now + count;
    if (request.what == What::shrink) target = now - count;
    if (const std::string why = why_not_size(desk.settings.bounds, target); !why.empty()) {
      throw Refused(why);
    }
    if (request.what == What::to && named > 0) {
      return to_exactly(desk, holdings, request.names, component, deadline, stop);
    }
    ResizeReport same;
    same.nodes = now;
    if (target == now) return same;
    if (target > now) {
      return grow(desk, {.count = target - now, .names = request.names, .exclude = {}}, component,
                  deadline, stop);
    }
    std::vector<std::string> going = request.names;
    if (going.empty()) {
      going = choose_to_go(holdings, desk.run.status(), now - target);
      if (static_cast<int>(going.size()) < now - target) {
        throw Refused("only " + std::to_string(going.size()) + " nodes can be given back");
      }
    }
    return shrink(desk, going, deadline);
  } catch (const ClusterError& failed) {
    throw Refused(failed.what());
  } catch (const RunError& failed) {
    throw Refused(failed.what());
  }
}

}  // namespace bellows::scheduler
