// SPDX-License-Identifier: Apache-2.0
#include "scheduler/broker/care.h"

#include <unistd.h>

#include <algorithm>
#include <ranges>

#include "scheduler/cluster/node_list.h"

namespace bellows::scheduler {
namespace {

using Kind = ClusterError::Kind;

// A policy's growth takes what is idle; what has to be waited for is not idle.
constexpr Seconds kPolicyWait{60};
constexpr Seconds kNodesAreIdle{2};      // an expansion is granted at once, or not at all
constexpr Seconds kCompanionStarts{12};  // slurmctld starts batch jobs in rounds
// What slurmctld had not written to its disk when it crashed is younger than this, and so is its
// absence.
constexpr Seconds kCrash{120};

}  // namespace

bool Care::look(bool busy) {
  try {
    settle_debts(desk_);
    View view;
    view.jobs = desk_.cluster.jobs();
    view.holdings = find_holdings(view.jobs, desk_.settings.base);
    const JobState state = view.holdings.base[0].state;
    if (state == JobState::ended || state == JobState::ending) return false;
    cancel_strays(view);
    view.nodes = desk_.cluster.nodes();
    view.run = desk_.run.status();
    if (view.run.state != "steady" && view.run.state != "changing") return true;
    seen_.clear();
    forget_taken(view);
    leave_endangered(view);
    give_back_unused(view);
    std::erase_if(since_, [this](const auto& entry) { return !seen_.contains(entry.first); });
    if (!busy) follow_policy(view);
  } catch (const ClusterError& failed) {
    return failed.kind() != Kind::unknown_job;
  } catch (const RunError&) {
    return true;  // it ends, or is about to be followed by another
  }
  return true;
}

// The two sides are looked at one after the other: what is to be believed was so twice.
bool Care::lasted(const std::string& what, Seconds time) {
  seen_.insert(what);
  const auto [entry, first] = since_.try_emplace(what, desk_.now());
  return !first && desk_.now() - entry->second >= time;
}

bool Care::seen_before(const std::string& what) { return lasted(what, Seconds(0)); }

void Care::forget_taken(const View& view) {
  const std::vector<std::string> held = view.holdings.nodes();
  std::vector<std::string> taken;
  for (const RunNode& node : view.run.nodes) {
    if (has(held, node.name) || desk_.arriving.contains(node.name)) continue;
    if (seen_before("taken " + node.name)) taken.push_back(node.name);
  }
  if (taken.empty()) return;
  const std::string text = "Slurm has taken " + join(taken) + " from the job";
  desk_.say(text);
  note(desk_, {.kind = "taken", .nodes = taken, .text = text});
  desk_.run.remove_nodes(taken, true, desk_.settings.leave);
}

void Care::leave_endangered(const View& view) {
  std::map<std::string, std::vector<std::string>> going;  // by reason
  const std::set<std::string> fixed = view.holdings.fixed();
  for (const JobView& brick : view.holdings.bricks) {
    if (!brick.preempted || brick.nodes.empty() || desk_.offers.contains(brick.id)) continue;
    auto& list = going["companion job " + std::to_string(brick.id) + " is preempted"];
    list.insert(list.end(), brick.nodes.begin(), brick.nodes.end());
  }
  const std::vector<std::string> held = view.holdings.nodes();
  for (const NodeView& node : view.nodes) {
    if (node.state != NodeState::leaving || !has(held, node.name)) continue;
    if (fixed.contains(node.name) || desk_.arriving.contains(node.name)) continue;
    auto& list = going["it drains" + (node.reason.empty() ? "" : " (" + node.reason + ")")];
    if (!has(list, node.name)) list.push_back(node.name);
  }
  for (const auto& [why, nodes] : going) {
    if (why_not_give_back(view.holdings, nodes).empty()) let_go(nodes, why);
  }
}

void Care::let_go(const std::vector<std::string>& nodes, const std::string& why) {
  const std::string key = join(nodes) + ": " + why;
  try {
    desk_.run.remove_nodes(nodes, false, desk_.settings.leave);
  } catch (const RunError& failed) {
    if (failed.kind() == RunError::Kind::gone) throw;
    if (warned_.insert(key).second) {
      desk_.say("the ranks on " + join(nodes) + " should leave, since " + why +
                ", but cannot: " + failed.what());
    }
    return;
  }
  give_back(desk_, nodes);
  const std::string text = "gave back " + join(nodes) + ": " + why;
  desk_.say(text);
  note(desk_, {.kind = "returned", .nodes = nodes, .text = text});
}

// Nodes that were taken in for ranks, and have none: after a broken growth, or because their ranks
// were asked to leave. What a user has added by other means is the user's.
void Care::give_back_unused(const View& view) {
  std::vector<std::string> unused;
  const Seconds limit = view.run.start_timeout + desk_.settings.spare;
  const auto of_run = [&](const std::string& name) {
    return std::ranges::find(view.run.nodes, name, &RunNode::name);
  };
  for (const std::string& node : view.holdings.nodes()) {
    if (desk_.arriving.contains(node) || view.holdings.fixed().contains(node)) continue;
    const auto known = of_run(node);
    const bool brick = has(view.holdings.base[0].nodes, node) == false &&
                       view.holdings.holder(node)->comment == brick_comment(desk_.settings.base);
    if (known == view.run.nodes.end()) {
      // A brick whose grant nobody waits for any more, or what was given back already.
      const auto gone = desk_.given_back.find(node);
      const bool again = gone != desk_.given_back.end() && desk_.now() - gone->second < kCrash;
      const bool ours = again || (brick && !desk_.offers.contains(view.holdings.holder(node)->id));
      if (ours && seen_before("unknown " + node)) unused.push_back(node);
    } else if (known->added && known->ranks == 0) {
      // Slurm has given notice, and all have left: the sooner it has the node, the better.
      const bool left = known->going && !known->agent && seen_before("left " + node);
      if (lasted("unused " + node, limit) || left) unused.push_back(node);
    }
  }
  if (unused.empty() || !why_not_give_back(view.holdings, unused).empty()) return;
  let_go(unused, "no ranks are there");
}

void Care::cancel_strays(const View& view) {
  for (const JobView& job : view.holdings.expansions) {
    if (!desk_.offers.contains(job.id)) cancel(desk_, job.id);
  }
  for (const JobView& job : view.holdings.bricks) {
    if (job.state == JobState::pending && !desk_.offers.contains(job.id)) cancel(desk_, job.id);
  }
}

void Care::follow_policy(const View& view) {
  using Mode = protocol::ElasticMode;
  const int size = static_cast<int>(view.holdings.nodes().size());
  if (size != size_) {
    size_ = size;
    size_since_ = desk_.now();
  }
  const bool settled = desk_.now() - size_since_ >= desk_.settings.economic.settle;
  if (settled && view.run.samples_per_second > 0 && view.run.state == "steady") {
    speeds_[size] = {view.run.samples_per_second, desk_.now()};
  }
  std::vector<JobView> own = view.holdings.base;
  for (const JobView& brick : view.holdings.bricks) own.push_back(brick);
  Outlook seen = outlook(desk_.settings.bounds, own, view.holdings.fixed(),
                         desk_.settings.companions, view.jobs, view.nodes);
  // In the order in which they can be given back.
  seen.held = choose_to_go(view.holdings, view.run, size);
  for (const std::string& node : view.holdings.nodes()) {
    if (has(seen.held, node)) continue;
    seen.held.push_back(node);
    seen.fixed.insert(node);
  }
  seen.hints = view.run.hints;
  by_companions_ = view.holdings.base[0].has_gres;
  report(seen, view);
  const std::optional<Decision> order = desk_.guidance.take_order();
  if (desk_.settings.mode == Mode::manual || view.run.state != "steady") return;
  if (desk_.guidance.guided()) {
    if (order) obey(*order);
  } else if (desk_.settings.mode == Mode::turbo) {
    obey(turbo(seen, speeds_));
  } else {
    obey(economic(seen, desk_.settings.economic, speeds_, size_since_, desk_.now()));
  }
}

// To bellowsd, which sees all elastic jobs.
void Care::report(const Outlook& seen, const View& view) {
  const JobView& base = view.holdings.base[0];
  ElasticJob job;
  job.id = base.id;
  job.user = base.user;
  job.name = base.name;
  job.partition = base.partition;
  job.features = base.shape.features;
  for (std::size_t i = 0; i < desk_.settings.companions.size(); ++i) {
    const protocol::CompanionPlace& place = desk_.settings.companions[i];
    job.places.push_back({place.partition.empty() ? base.partition : place.partition,
                          place.features.empty() ? base.shape.features : place.features,
                          static_cast<int>(std::min(seen.idle[i + 1].most, view.nodes.size()))});
  }
  job.manual = desk_.settings.mode == protocol::ElasticMode::manual;
  job.bounds = seen.bounds;
  job.held = seen.held;
  job.fixed = seen.fixed;
  job.speeds = speeds_;
  job.since = size_since_;
  job.samples_per_second = view.run.samples_per_second;
  job.work_left = view.run.samples_left;
  job.ranks = view.run.ranks;
  job.step = view.run.step;
  job.live = view.run.live;
  job.hints = view.run.hints;
  desk_.guidance.publish(job);
}

void Care::obey(const Decision& decision) {
  if (decision.nothing()) return;
  if (decision.give_back.empty() && desk_.now() < grow_again_) return;
  const Guidance::Change change(desk_.guidance, decision.grow, decision.give_back);
  const Time deadline = desk_.now() + std::chrono::duration_cast<Time::duration>(kPolicyWait);
  try {
    if (!decision.give_back.empty()) {
      const ResizeReport report = shrink(desk_, decision.give_back, deadline);
      const std::string text = "gave back " + join(decision.give_back) + ": " + decision.why;
      desk_.say(text);
      note_changes(desk_, report, text);
    } else {
      // What is not granted by then is not idle any more.
      const Seconds patience =
          decision.companion > 0 || by_companions_ ? kCompanionStarts : kNodesAreIdle;
      const Time begun = desk_.now();
      const auto stop = [&]() -> std::string {
        return desk_.now() - begun > patience ? "nothing is idle" : "";
      };
      const ResizeReport report = grow(
          desk_,
          {.count = decision.grow, .names = {}, .exclude = {}, .companion = decision.companion}, 0,
          deadline, stop);
      const std::string text = "took " + join(report.added) + ": " + decision.why;
      desk_.say(text);
      note_changes(desk_, report, text);
    }
  } catch (const Refused& refused) {
    grow_again_ = desk_.now() + std::chrono::duration_cast<Time::duration>(6 * desk_.settings.poll);
    if (warned_.insert(refused.what()).second) {
      desk_.say(refused.what());
      note(desk_, {.kind = "refused", .text = refused.what()});
    }
  }
}

bool Care::cancel_companions() {
  try {
    // (The base may be forgotten already.)
    for (const JobView& job : desk_.cluster.jobs()) {
      const bool over = job.state == JobState::ended || job.state == JobState::ending;
      if (is_companion(job, desk_.settings.base) && !over && job.user == geteuid()) {
        cancel(desk_, job.id);
      }
    }
  } catch (const ClusterError& failed) {
    if (failed.kind() == Kind::unreachable) return false;
  }
  settle_debts(desk_);
  return desk_.to_cancel.empty();
}

}  // namespace bellows::scheduler
