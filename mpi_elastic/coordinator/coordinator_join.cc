// SPDX-License-Identifier: Apache-2.0
// Growth: new ranks are started bare, load their program and data while the others go on, say that
// they are ready, and are in the next epoch.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json.hpp>

#include "mpi_elastic/coordinator/coordinator.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

// Joiners that were asked for together become ready one by one: so long the first waits for the
// others, to be taken in by one change.
constexpr auto kGatherJoiners = std::chrono::milliseconds(1000);

}  // namespace

std::vector<std::uint64_t> Coordinator::grow(int count, const std::vector<std::string>& nodes) {
  std::vector<std::uint64_t> members;
  std::map<std::string, std::vector<std::uint64_t>> by_node;
  for (int i = 0; i < count; ++i) {
    const std::string node = node_for_joiner(nodes);
    if (!membership_.has_node(node)) {
      membership_.add_node(node);
      arrivals_[node];
    }
    const std::uint64_t member = membership_.add_member(node);
    membership_.set_state(member, MemberState::joining);
    ranks_[member];
    members.push_back(member);
    by_node[node].push_back(member);
  }
  for (const auto& [node, added] : by_node) {
    const auto arriving = arrivals_.find(node);
    if (arriving == arrivals_.end()) {
      send_joiners(node, added);
      continue;
    }
    const bool started = !arriving->second.members.empty();
    auto& waiting = arriving->second.members;
    waiting.insert(waiting.end(), added.begin(), added.end());
    if (started) continue;
    if (!departing_nodes_.contains(node)) start_arrival(node);  // else when its old agent is gone
  }
  return members;
}

/// The one with the fewest ranks for its cores, of those named or else of all that the job has. One
/// that was lost counts as full: most likely it is still down, or no longer in the allocation.
std::string Coordinator::node_for_joiner(const std::vector<std::string>& nodes) const {
  std::vector<std::pair<std::string, int>> candidates;  // name, cores
  const auto cores_of = [this](const std::string& name) {
    for (const Node& node : allocation_.nodes) {
      if (node.name == name) return std::max(node.cpus, 1);
    }
    return 1;
  };
  if (!nodes.empty()) {
    for (const std::string& name : nodes) candidates.emplace_back(name, cores_of(name));
  } else {
    for (const auto& [name, id] : membership_.nodes()) {
      if (!going_nodes_.contains(name)) candidates.emplace_back(name, cores_of(name));
    }
    for (const Node& node : allocation_.nodes) {
      if (membership_.has_node(node.name) || going_nodes_.contains(node.name)) continue;
      candidates.emplace_back(node.name, node.cpus);
    }
    if (candidates.empty()) throw std::runtime_error("all nodes of the job are on their way out");
  }
  const auto load = [this](const std::pair<std::string, int>& node) {
    const auto ranks = static_cast<double>(membership_.members_on(node.first).size());
    return ranks / node.second + (lost_nodes_.contains(node.first) ? 1 : 0);
  };
  return std::min_element(candidates.begin(), candidates.end(),
                          [&](const auto& a, const auto& b) { return load(a) < load(b); })
      ->first;
}

void Coordinator::send_joiners(const std::string& node, const std::vector<std::uint64_t>& members) {
  Message join("join");
  join.head["members"] = json::value_from(members);
  links_.send(node, join);
}

void Coordinator::start_arrival(const std::string& node) {
  auto& limit = arrivals_.at(node).limit;
  limit = std::make_unique<boost::asio::steady_timer>(io_);
  limit->expires_after(to_duration(options_.start_seconds));
  limit->async_wait([this, node](const boost::system::error_code& failed) {
    if (!failed) {
      node_failed_to_arrive(node, fmt::format("no word from its agent within {} s "
                                              "(--start-timeout)",
                                              options_.start_seconds));
    }
  });
  try {
    agent_settings_.node = node;
    const std::string job = job_of(node);
    const bool companion = !job.empty() && job.find('+') == std::string::npos;
    agent_settings_.job = companion ? job : allocation_.job;
    agent_settings_.notice = companion;
    starter_.start(agent_settings_, job_of(node), other_nodes(node));
    keep_record();
  } catch (const std::runtime_error& failed) {
    node_failed_to_arrive(node, failed.what());
  }
}

void Coordinator::node_arrived(const std::string& node) {
  const auto arrival = arrivals_.extract(node);
  lost_nodes_.erase(node);
  note_arrival(node, "");
  send_joiners(node, arrival.mapped().members);
}

void Coordinator::node_failed_to_arrive(const std::string& node, const std::string& why) {
  const auto arrival = arrivals_.extract(node);
  if (arrival.empty()) return;
  note_arrival(node, why);
  starter_.kill_one(node);
  membership_.lose_node(node);
  lost_nodes_.insert(node);
  keep_record();
  for (const std::uint64_t member : arrival.mapped().members) {
    RankEnd end;
    end.rank = -1;
    end.error = why;
    end.node = node;
    ended_before_start(member, std::move(end));
  }
}

void Coordinator::ended_before_start(std::uint64_t member, RankEnd end) {
  if (ranks_.erase(member) == 0) return;
  note_arrival(membership_.member(member)->node, describe(end));
  spdlog::warn("{}", describe(end));
  note_event({.kind = "failed", .nodes = {end.node}, .text = describe(end)});
  check_leaves();
  answer_waiting();
}

void Coordinator::member_ready(const Message& message) {
  const auto member = static_cast<std::uint64_t>(message.number("member"));
  const Member* who = membership_.member(member);
  if (who == nullptr || !ranks_.contains(member)) return;
  ranks_.at(member).elastic = true;
  if (who->state != MemberState::joining) {
    // It has replaced its process, and with it all that it had to do with earlier worlds.
    const WorldSpec* newest = membership_.newest();
    if (newest != nullptr && newest->epoch > 1) member_left(member, newest->epoch - 1);
    return;
  }
  joiner_ready(member);
}

void Coordinator::joiner_ready(std::uint64_t member) {
  if (ending_) {
    kill_members({member}, true);
    return;
  }
  ready_joiners_.insert(member);
  for (Arriving& arriving : arriving_) {
    const auto place = arriving.places.find(membership_.member(member)->node);
    if (place == arriving.places.end()) continue;
    place->second.ready = std::chrono::duration<double>(Clock::now() - arriving.started).count();
  }
  const std::vector<std::uint64_t> joining = membership_.members_in(MemberState::joining);
  const bool all = std::all_of(joining.begin(), joining.end(),
                               [this](std::uint64_t id) { return ready_joiners_.contains(id); });
  if (all) {
    join_timer_.cancel();
    take_in_joiners();
  } else if (ready_joiners_.size() == 1) {
    join_timer_.expires_after(kGatherJoiners);
    join_timer_.async_wait([this](const boost::system::error_code& failed) {
      if (!failed) take_in_joiners();
    });
  }
}

void Coordinator::take_in_joiners() {
  if (ready_joiners_.empty() || state_ != State::running) return;
  std::size_t count = 0;
  for (const std::uint64_t member : ready_joiners_) {
    if (!ranks_.contains(member)) continue;  // dead meanwhile
    membership_.set_state(member, MemberState::running);
    ++count;
  }
  ready_joiners_.clear();
  if (count == 0) return;
  if (phase_ == Phase::steady) change_kind_ = "join";
  change_world(fmt::format("{} joined", count), false);
}

// The program is done: what is still on its way in has nothing to do.
void Coordinator::dismiss_joiners() {
  std::vector<std::uint64_t> joiners;
  for (const auto& [member, info] : ranks_) {
    if (!info.holds_state && info.elastic) joiners.push_back(member);
  }
  if (!joiners.empty()) kill_members(joiners, true);
}

}  // namespace bellows::elastic
