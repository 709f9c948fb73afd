// SPDX-License-Identifier: Apache-2.0
// What happens to the job, told to its owner: `bellows events`, `bellows status`, --events.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "mpi_elastic/coordinator/coordinator.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

constexpr std::size_t kEventsInAnAnswer = 200;
// So long a follower waits for news before it is told that there are none, and asks again.
constexpr auto kFollowTime = std::chrono::seconds(20);
// What happens to an allocation is for its broker to tell, what happens to the world is not.
constexpr std::array kBrokerKinds = {"asked", "granted", "refused", "returned", "taken", "notice"};

}  // namespace

void Coordinator::open_events() {
  if (options_.events.empty()) return;
  try {
    events_.write_to(options_.events);
  } catch (const std::runtime_error& failed) {
    if (!left_) throw;  // a job that runs is worth more
    spdlog::warn("{}", failed.what());
  }
}

void Coordinator::note_event(Event event) {
  const WorldSpec* world = membership_.newest();
  if (world != nullptr) {
    event.epoch = world->epoch;
    event.ranks = world->size();
  }
  counts_.add(event);
  const std::string failed = events_.add(std::move(event));
  if (!failed.empty()) spdlog::warn("{}", failed);
  answer_followers();
}

// A member that was in the last world and is not in this one, or the other way round: its node is
// what the change is about.
std::vector<std::string> Coordinator::nodes_that_changed() {
  const std::set<std::uint64_t> now = members_of_newest();
  std::vector<std::uint64_t> changed;
  std::set_symmetric_difference(now.begin(), now.end(), stood_.begin(), stood_.end(),
                                std::back_inserter(changed));
  stood_ = now;
  std::vector<std::string> nodes;
  for (const std::uint64_t member : changed) {
    const Member* who = membership_.member(member);
    if (who != nullptr && std::ranges::find(nodes, who->node) == nodes.end()) {
      nodes.push_back(who->node);
    }
  }
  return nodes;
}

void Coordinator::serve_events(const Message& request, ControlServer::Reply reply) {
  Follower follower{std::move(reply), request.number("after"), Clock::now() + kFollowTime};
  // Another has counted those that the follower has.
  if (request.number("launcher") != getpid()) follower.after = 0;
  if (!request.flag("wait")) follower.until = Clock::time_point::min();
  followers_.push_back(std::move(follower));
  answer_followers();
}

void Coordinator::answer_followers() {
  const auto now = Clock::now();
  std::erase_if(followers_, [&](const Follower& follower) {
    if (events_.newest() <= follower.after && now < follower.until) return false;
    Message answer("events");
    json::array events;
    for (const Event& event : events_.after(follower.after, kEventsInAnAnswer)) {
      events.push_back(to_json(event));
    }
    answer.head["launcher"] = getpid();
    answer.head["newest"] = events_.newest();
    answer.head["events"] = std::move(events);
    follower.reply(answer);
    return true;
  });
  if (followers_.empty()) return;
  follow_timer_.expires_at(std::ranges::min(followers_, {}, &Follower::until).until);
  follow_timer_.async_wait([this](const boost::system::error_code& aborted) {
    if (!aborted) answer_followers();
  });
}

void Coordinator::note_of_broker(const Message& request, const ControlServer::Reply& reply) {
  Event event = protocol::job_event_from_json(request.object("event"));
  if (std::ranges::find(kBrokerKinds, event.kind) == kBrokerKinds.end()) {
    throw std::runtime_error("'" + event.kind + "' is no event of an allocation");
  }
  note_event(std::move(event));
  reply(Message("done"));
}

}  // namespace bellows::elastic
