// SPDX-License-Identifier: Apache-2.0
// How one epoch of the world follows another. All agents register the new epoch first, then its
// members are told to enter; when the last one is in, the world stands. A death on the way makes
// the epoch void, and another is declared.
//
//   steady ──change──▶ registering ──all nodes──▶ entering ──all members──▶ steady
//                        ▲   │ limit: the node is lost │ limit: a new epoch, then they are killed
//                        └───┴──────── death ──────────┘
#include <spdlog/spdlog.h>

#include <boost/json.hpp>

#include "mpi_elastic/coordinator/coordinator.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

// Deaths come in groups (a node's ranks, two kills at once): one epoch for all of them.
constexpr auto kGatherDeaths = std::chrono::milliseconds(5);

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

}  // namespace

std::set<std::uint64_t> Coordinator::members_of_newest() const {
  const WorldSpec* newest = membership_.newest();
  if (newest == nullptr) return {};
  return {newest->members.begin(), newest->members.end()};
}

bool Coordinator::is_in_newest(std::uint64_t member) const {
  return membership_.newest_proc(member).has_value();
}

// Urgent: members of the present world have died, so that it cannot go on. Otherwise the change
// waits for its turn.
void Coordinator::change_world(const std::string& cause, bool urgent) {
  if (state_ != State::running) return;
  causes_.push_back(cause);
  if (urgent) {
    urgent_ = true;
    change_kind_ = "repair";
  } else if (phase_ != Phase::steady) {
    change_again_ = true;
    return;
  }
  if (declare_planned_) return;
  declare_planned_ = true;
  if (phase_ == Phase::steady) change_started_ = Clock::now();
  declare_timer_.expires_after(kGatherDeaths);
  declare_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed) return;
    declare_planned_ = false;
    declare_world();
  });
}

bool Coordinator::changes_anything() const {
  std::set<std::uint64_t> next;
  for (const auto& [member, info] : ranks_) {
    const MemberState state = membership_.member(member)->state;
    if (state == MemberState::running || state == MemberState::planned) next.insert(member);
  }
  return urgent_ || next != members_of_newest();
}

void Coordinator::declare_world() {
  if (state_ != State::running) return;
  take_back_leavers();
  if (ending_ && membership_.members_in(MemberState::running).empty()) {
    // The program is done; of its world nobody is left, only joiners that still load.
    kill_members(membership_.members_in(MemberState::joining), true);
    return;
  }
  std::string why_not;
  if (!can_repair(why_not)) {
    stop_job(why_not);
    return;
  }
  change_again_ = false;
  apply_leaves();
  if (!changes_anything()) return;
  if (urgent_) {
    for (const auto& [nspace, spec] : membership_.worlds()) {
      send_results(rendezvous_.doom(nspace));
    }
  }
  const WorldSpec& world = membership_.declare_epoch();
  nspace_ = world.nspace;
  declared_ = Clock::now();
  phase_ = Phase::registering;
  unregistered_ = ready_nodes_;
  const Message declared = world_message(world);
  for (const std::string& node : ready_nodes_) links_.send(node, declared);
  await_phase();
}

void Coordinator::epoch_registered(const std::string& node, const Message& message) {
  if (message.text("nspace") != nspace_ || phase_ != Phase::registering) return;
  if (message.head.contains("error")) {
    links_.drop(node, message.text("error"));
    return;
  }
  unregistered_.erase(node);
  enter_when_registered();
}

void Coordinator::enter_when_registered() {
  if (state_ != State::running || phase_ != Phase::registering || !unregistered_.empty()) return;
  // After another death nobody should go where it cannot form.
  if (!(declare_planned_ && urgent_)) enter_world();
}

void Coordinator::enter_world() {
  phase_ = Phase::entering;
  registered_ = Clock::now();
  not_entered_ = members_of_newest();
  const WorldSpec& world = *membership_.newest();
  for (std::size_t rank = 0; rank < world.members.size(); ++rank) {
    const auto found = ranks_.find(world.members[rank]);
    if (found != ranks_.end()) found->second.rank = static_cast<std::int64_t>(rank);
  }
  Message enter("enter");
  enter.head["nspace"] = nspace_;
  enter.head["urgent"] = urgent_;
  Message leave("leave");
  leave.head["members"] = json::value_from(membership_.members_in(MemberState::leaving));
  for (const std::string& node : ready_nodes_) {
    links_.send(node, leave);
    links_.send(node, enter);
  }
  await_phase();
}

void Coordinator::member_entered(const Message& message) {
  const auto member = static_cast<std::uint64_t>(message.number("member"));
  const auto found = ranks_.find(member);
  if (found == ranks_.end()) return;
  const auto epoch = static_cast<std::uint32_t>(message.number("epoch"));
  found->second.elastic = true;
  found->second.entered = epoch;
  const WorldSpec* newest = membership_.newest();
  if (phase_ != Phase::entering || newest == nullptr || epoch != newest->epoch) return;
  not_entered_.erase(member);
  stand_when_entered();
}

// A world in which somebody has died meanwhile does not stand: the next one is about to be
// declared.
void Coordinator::stand_when_entered() {
  if (phase_ != Phase::entering || !not_entered_.empty()) return;
  if (!(declare_planned_ && urgent_)) world_stands();
}

void Coordinator::world_stands() {
  phase_ = Phase::steady;
  stood_at_ = Clock::now();
  phase_limit_.cancel();
  const WorldSpec& world = *membership_.newest();
  const auto now = Clock::now();
  std::string text =
      fmt::format("world {}: {} ranks on {} nodes", world.epoch, world.size(), world.nodes.size());
  if (!causes_.empty()) text += " (" + joined(causes_) + ")";
  text += fmt::format(
      "; declared after {:.0f} ms, known to all nodes after {:.0f} ms, entered "
      "after {:.0f} ms",
      1e3 * seconds_between(change_started_, declared_),
      1e3 * seconds_between(declared_, registered_), 1e3 * seconds_between(registered_, now));
  note_event({.kind = change_kind_,
              .nodes = nodes_that_changed(),
              .seconds = seconds_between(change_started_, now),
              .phases = {{"declare", seconds_between(change_started_, declared_)},
                         {"register", seconds_between(declared_, registered_)},
                         {"enter", seconds_between(registered_, now)}},
              .text = text});
  if (world.epoch > 1) {
    spdlog::warn("{}", text);
  } else {
    spdlog::info("{}", text);
  }
  if (!ending_) outcome_.forgive();
  causes_.clear();
  strikes_.clear();
  urgent_ = false;
  forget_old_worlds();
  release_leavers();
  answer_waiting();
  release_empty_nodes();
  if (change_again_ || !leave_asked_.empty()) {
    change_again_ = false;
    change_kind_ = leave_asked_.empty() ? "join" : "leave";
    change_world("asked for meanwhile", false);
  }
}

// Those who leave may still be closing the world before this one.
void Coordinator::forget_old_worlds() {
  const std::uint32_t epoch = membership_.newest()->epoch;
  const std::vector<std::string> forgotten = membership_.forget_before(epoch - 1);
  if (forgotten.empty()) return;
  std::erase_if(broken_, [this](const std::string& nspace) { return !membership_.world(nspace); });
  std::erase_if(announced_, [this](const Proc& proc) { return !membership_.world(proc.nspace); });
  Message forget("forget");
  forget.head["nspaces"] = json::value_from(forgotten);
  links_.send_to_all(forget);
}

void Coordinator::await_phase() {
  phase_limit_.expires_after(to_duration(options_.change_seconds));
  phase_limit_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed && state_ == State::running) on_phase_limit();
  });
}

void Coordinator::on_phase_limit() {
  if (phase_ == Phase::registering) {
    for (const std::string& node : std::set<std::string>(unregistered_)) {
      links_.drop(node, "its agent does not take part in a change of the world");
    }
    await_phase();
    return;
  }
  if (phase_ != Phase::entering) return;
  // A program that has not come to its ElasticWorld yet is loading; that may take its time.
  std::vector<std::uint64_t> late, hopeless;
  for (const std::uint64_t member : not_entered_) {
    const auto found = ranks_.find(member);
    if (found == ranks_.end() || !found->second.elastic) continue;
    (++strikes_[member] > 1 ? hopeless : late).push_back(member);
  }
  if (!hopeless.empty()) {
    spdlog::warn(
        "{} ranks do not come into the world {} within {} s (--change-timeout), for the "
        "second time; killing them",
        hopeless.size(), membership_.newest()->epoch, options_.change_seconds);
    kill_members(hopeless, false);
  } else if (!late.empty()) {
    change_world(fmt::format("world {} did not form within {} s", membership_.newest()->epoch,
                             options_.change_seconds),
                 true);
  }
  await_phase();
}

}  // namespace bellows::elastic
