// SPDX-License-Identifier: Apache-2.0
// What is done when a member of a world that can change has ended.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json.hpp>

#include "mpi_elastic/coordinator/coordinator.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

// The word of a death can be slower than MPI, which makes the others report trouble.
constexpr auto kTroubleWait = std::chrono::milliseconds(300);
constexpr int kMostTroubles = 5;
constexpr auto kGatherDeparted = std::chrono::milliseconds(2);
// When one rank is done the others are, as a rule, in the same moment.
constexpr auto kEndTogether = std::chrono::milliseconds(500);

}  // namespace

// `closed`: it has not left its last world for another, but closed it, as programs do at their end.
void Coordinator::member_ended(std::uint64_t member, const RankEnd& end, MemberState before,
                               bool closed) {
  if (before == MemberState::joining) {
    note_arrival(end.node, describe(end));
    if (!end.stopped) {
      spdlog::warn("{}; the world goes on without it", describe(end));
      note_event({.kind = "failed", .nodes = {end.node}, .text = describe(end)});
    }
  } else if (before == MemberState::leaving && !is_failure(end)) {
    spdlog::info("{}, as it was asked to leave", describe(end));
  } else if (is_failure(end) && !(ended_by_itself(end) && (closed || phase_ == Phase::steady))) {
    repair_after(end, member);
  } else {
    // Its own decision: the program is done, or has found something that it cannot work with.
    ending_ = true;
    dismiss_joiners();
    stand_when_entered();
    if (closed && phase_ != Phase::steady) await_the_end();
  }
  check_leaves();
  answer_waiting();
  release_empty_nodes();
}

// The program was done while a new world was to form, which now waits for those who are gone.
void Coordinator::await_the_end() {
  ending_timer_.expires_after(kEndTogether);
  ending_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed || state_ != State::running || phase_ == Phase::steady) return;
    change_world("the others are done", true);
  });
}

void Coordinator::repair_after(const RankEnd& end, std::uint64_t member) {
  troubles_ = 0;
  announce({member});
  for (const Proc& proc : membership_.procs_of(member)) world_is_broken(proc.nspace);
  if (!is_in_newest(member)) {  // a leaver: the others' next world does not count on it
    spdlog::warn("{} while it was leaving", describe(end));
    return;
  }
  change_world(describe(end), true);
}

bool Coordinator::can_repair(std::string& why_not) const {
  int left = 0;
  for (const auto& [member, info] : ranks_) {
    const MemberState state = membership_.member(member)->state;
    if (state != MemberState::running && state != MemberState::planned) continue;
    ++left;
    if (info.connected && !info.elastic) {
      why_not = "the program uses MPI, but not ElasticWorld: its world cannot change";
      return false;
    }
  }
  if (left == 0 || (left < options_.elastic->first && !ending_)) {
    why_not =
        fmt::format("{} ranks are left, --elastic={}-{} needs {}", left, options_.elastic->first,
                    options_.elastic->second, options_.elastic->first);
    return false;
  }
  return true;
}

// An error of MPI's in a world in which nobody has died, such as a broken connection: the others
// would wait for this member for ever.
void Coordinator::member_in_trouble(const Message& message) {
  const auto member = static_cast<std::uint64_t>(message.number("member"));
  const auto epoch = static_cast<std::uint32_t>(message.number("epoch"));
  const auto found = ranks_.find(member);
  const WorldSpec* newest = membership_.newest();
  if (found == ranks_.end() || newest == nullptr || epoch != newest->epoch) return;
  spdlog::info("rank {} in world {}: {}", found->second.rank, epoch, message.text("text"));
  trouble_timer_.expires_after(kTroubleWait);
  trouble_timer_.async_wait(
      [this, member, epoch, text = message.text("text")](const boost::system::error_code& failed) {
        if (failed || state_ != State::running || declare_planned_) return;
        const WorldSpec* world = membership_.newest();
        if (world->epoch != epoch || !ranks_.contains(member)) return;
        if (++troubles_ > kMostTroubles) {
          stop_job("the world breaks again and again although nobody dies: " + text);
          return;
        }
        member_left(member, epoch);
        world_is_broken(world->nspace);
        change_world(fmt::format("rank {}: {}", ranks_.at(member).rank, text), true);
      });
}

void Coordinator::member_left(std::uint64_t member, std::uint32_t epoch) {
  const auto found = ranks_.find(member);
  if (found == ranks_.end()) return;
  found->second.left = std::max(found->second.left, epoch);
  announce_departed();
}

void Coordinator::world_is_broken(const std::string& nspace) {
  broken_.insert(nspace);
  announce_departed();
}

// Who has left a broken world is as good as dead for those who are still in it: they may be waiting
// for its answer to a message (Open MPI ends the collectives of a broken communicator, but for
// sends whose receiver has not answered yet).
void Coordinator::announce_departed() {
  if (broken_.empty() || departed_planned_) return;
  departed_planned_ = true;
  departed_timer_.expires_after(kGatherDeparted);
  departed_timer_.async_wait([this](const boost::system::error_code& aborted) {
    departed_planned_ = false;
    if (aborted || state_ != State::running) return;
    for (const std::string& nspace : broken_) {
      const WorldSpec* world = membership_.world(nspace);
      if (world == nullptr) continue;
      std::vector<Proc> departed;
      for (std::size_t rank = 0; rank < world->members.size(); ++rank) {
        const auto found = ranks_.find(world->members[rank]);
        const Proc proc{nspace, static_cast<std::int64_t>(rank)};
        if (found == ranks_.end() || found->second.left < world->epoch) continue;
        if (announced_.insert(proc).second) departed.push_back(proc);
      }
      if (!departed.empty()) tell_failed(departed, {nspace});
    }
  });
}

void Coordinator::stop_job(const std::string& reason) {
  stop_reason_ = reason;
  spdlog::error("{}; stopping the job", reason);
  stop_ranks();
}

void Coordinator::kill_members(const std::vector<std::uint64_t>& members, bool stop) {
  Message kill("kill");
  kill.head["members"] = json::value_from(members);
  kill.head["stop"] = stop;
  links_.send_to_all(kill);
}

}  // namespace bellows::elastic
