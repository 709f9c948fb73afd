// SPDX-License-Identifier: Apache-2.0
// Orderly shrinking: the next epoch is declared without the leavers, who go at a step's end.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "mpi_elastic/coordinator/coordinator.h"

namespace bellows::elastic {
using protocol::Message;

std::string Coordinator::why_not_leave(const std::vector<std::uint64_t>& members) const {
  const std::size_t staying = members_staying().size();
  if (staying < members.size() + static_cast<std::size_t>(options_.elastic->first)) {
    return fmt::format("{} of {} ranks would stay, --elastic={}-{} needs {}",
                       staying - std::min(staying, members.size()), staying,
                       options_.elastic->first, options_.elastic->second, options_.elastic->first);
  }
  return "";
}

void Coordinator::let_leave(const std::vector<std::uint64_t>& members) {
  std::vector<std::uint64_t> joiners;
  for (const std::uint64_t member : members) {
    if (membership_.member(member)->state == MemberState::joining) {
      joiners.push_back(member);
    } else {
      leave_asked_.insert(member);
    }
  }
  if (!joiners.empty()) kill_members(joiners, true);
  if (joiners.size() == members.size()) return;
  if (phase_ == Phase::steady) change_kind_ = "leave";
  change_world(fmt::format("{} leave", members.size() - joiners.size()), false);
}

// As an epoch is declared. Whoever stays must hold the state when a leaver is let go: those who
// come get it first, in an epoch of their own, and a repair lets nobody go.
void Coordinator::apply_leaves() {
  if (leave_asked_.empty()) return;
  int staying = 0;
  bool all_hold_state = true;
  for (const auto& [member, info] : ranks_) {
    if (membership_.member(member)->state != MemberState::running) continue;
    if (leave_asked_.contains(member)) continue;
    ++staying;
    all_hold_state = all_hold_state && info.holds_state;
  }
  // Tried again when one says that it holds the state, and when the next world stands.
  if (urgent_ || !all_hold_state || staying < options_.elastic->first) return;
  for (const std::uint64_t member : leave_asked_) {
    membership_.set_state(member, MemberState::leaving);
  }
  leave_held_ = std::exchange(leave_asked_, {});
  change_kind_ = "leave";
}

// The epoch that was to let them go is void, and they may be the last to hold the state: they are
// called back by having a place in the next.
void Coordinator::take_back_leavers() {
  for (const std::uint64_t member : std::exchange(leave_held_, {})) {
    if (!ranks_.contains(member)) continue;
    membership_.set_state(member, MemberState::running);
    leave_asked_.insert(member);
  }
  check_leaves();
}

void Coordinator::member_in_step(std::uint64_t member) {
  const auto found = ranks_.find(member);
  if (found == ranks_.end() || found->second.holds_state) return;
  found->second.holds_state = true;
  if (!leave_asked_.empty()) change_world("others leave", false);
}

// Joiners that the leavers were to make room for did not come.
void Coordinator::check_leaves() {
  if (leave_asked_.empty() ||
      members_staying().size() >= static_cast<std::size_t>(options_.elastic->first)) {
    return;
  }
  spdlog::warn("{} ranks stay that were asked to leave: too few would be left",
               leave_asked_.size());
  note_event({.kind = "failed", .text = "ranks do not leave: too few would be left"});
  leave_asked_.clear();
}

// The world without them stands, and all in it hold the state.
void Coordinator::release_leavers() {
  const std::vector<std::uint64_t> leavers = membership_.members_in(MemberState::leaving);
  if (leavers.empty()) return;
  leave_held_.clear();
  Message release("release");
  release.head["members"] = boost::json::value_from(leavers);
  links_.send_to_all(release);
  leave_timer_.expires_after(to_duration(options_.change_seconds));
  leave_timer_.async_wait([this, leavers](const boost::system::error_code& failed) {
    std::vector<std::uint64_t> left;
    for (const std::uint64_t member : leavers) {
      if (ranks_.contains(member)) left.push_back(member);
    }
    if (failed || left.empty() || state_ != State::running) return;
    spdlog::warn(
        "{} ranks that were asked to leave have not ended within {} s "
        "(--change-timeout); killing them",
        left.size(), options_.change_seconds);
    kill_members(left, true);
  });
}

bool Coordinator::is_leaving(std::uint64_t member) const {
  return leave_asked_.contains(member) || membership_.member(member)->state == MemberState::leaving;
}

std::vector<std::uint64_t> Coordinator::members_staying() const {
  std::vector<std::uint64_t> staying;
  for (const auto& [member, info] : ranks_) {
    const bool leaves = is_leaving(member);
    if (!leaves) staying.push_back(member);
  }
  return staying;
}

// Those who came last go first: joiners that are not in yet, then the highest ranks.
std::vector<std::uint64_t> Coordinator::members_to_shrink(int count) const {
  std::vector<std::uint64_t> members = members_staying();
  std::stable_sort(members.begin(), members.end(), [this](std::uint64_t a, std::uint64_t b) {
    const std::int64_t rank_a = ranks_.at(a).rank, rank_b = ranks_.at(b).rank;
    if ((rank_a < 0) != (rank_b < 0)) return rank_a < 0;
    return rank_a > rank_b;
  });
  members.resize(std::min(members.size(), static_cast<std::size_t>(count)));
  return members;
}

// A node that has no ranks any more is given back when its agent is gone.
void Coordinator::release_empty_nodes() {
  if (state_ != State::running || !options_.elastic || phase_ != Phase::steady) return;
  if (ending_) return;  // the agents know how their ranks have ended
  for (const std::string& node : std::set<std::string>(ready_nodes_)) {
    if (!membership_.members_on(node).empty() || arrivals_.contains(node)) continue;
    spdlog::info("node {} has no ranks any more; its agent goes", node);
    ready_nodes_.erase(node);
    departing_nodes_.insert(node);
    membership_.lose_node(node);
    keep_record();
    links_.send(node, Message("finish"));
  }
}

}  // namespace bellows::elastic
