// SPDX-License-Identifier: Apache-2.0
// What is done when a member of a world that can change has ended.
#include <spdlog/spdlog.h>

#include <boost/json.hpp>

#include "mpi_elastic/coordinator.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

// The word of a death can be slower than MPI, which makes the others report trouble.
constexpr auto kTroubleWait = std::chrono::milliseconds(300);
constexpr int kMostTroubles = 5;

}  // namespace

void Coordinator::member_ended(std::uint64_t member, const RankEnd& end, MemberState before) {
  if (before == MemberState::joining) {
    if (!end.stopped) {
      spdlog::warn("{}; the world goes on without it", describe(end));
      note_event("join", describe(end), 0);
    }
  } else if (before == MemberState::leaving && !is_failure(end)) {
    spdlog::info("{}, as it was asked to leave", describe(end));
  } else if (end.signal == 0 && !end.node_lost && end.error.empty() && !end.abort_status &&
             end.finalized == end.connected && phase_ == Phase::steady) {
    // Its own decision: the program is done, or has found something that it cannot work with.
    ending_ = true;
    dismiss_joiners();
  } else if (is_failure(end)) {
    repair_after(end, member);
  } else {
    ending_ = true;
    if (not_entered_.empty() && phase_ == Phase::entering) world_stands();
  }
  answer_waiting();
  release_empty_nodes();
}

void Coordinator::repair_after(const RankEnd& end, std::uint64_t member) {
  troubles_ = 0;
  announce({member});
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
    why_not = fmt::format("{} ranks are left, --elastic={}-{} needs {}", left,
                          options_.elastic->first, options_.elastic->second,
                          options_.elastic->first);
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
  trouble_timer_.async_wait([this, member, epoch, text = message.text("text")](
                                const boost::system::error_code& failed) {
    if (failed || state_ != State::running || declare_planned_) return;
    const WorldSpec* world = membership_.newest();
    if (world->epoch != epoch || !ranks_.contains(member)) return;
    if (++troubles_ > kMostTroubles) {
      spdlog::error("the world breaks again and again although nobody dies; stopping the job");
      stop_ranks();
      return;
    }
    announce({member});  // as one who has left this world, which wakes those who wait for it
    change_world(fmt::format("rank {}: {}", ranks_.at(member).rank, text), true);
  });
}

void Coordinator::kill_members(const std::vector<std::uint64_t>& members, bool stop) {
  Message kill("kill");
  kill.head["members"] = json::value_from(members);
  kill.head["stop"] = stop;
  links_.send_to_all(kill);
}

}  // namespace bellows::elastic
