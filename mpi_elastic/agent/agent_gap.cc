// SPDX-License-Identifier: Apache-2.0
// The time without a coordinator. The ranks of an elastic job do not need one until something
// changes: they go on, what they write and how they end is kept, and the agent calls at the same
// address until another bellows-run answers (`bellows-run --reattach`), or the grace is over.
//
// One that is silent may be stopped, as with a job that Slurm suspends (its companion jobs are not
// suspended with it). When it is continued it does not know that it was away, and the connection is
// as good as before: the agent keeps it until another bellows-run has answered.
#include <spdlog/spdlog.h>

#include <boost/json.hpp>
#include <set>
#include <utility>

#include "mpi_elastic/agent/agent.h"
#include "mpi_elastic/common/node_report.h"

namespace bellows::elastic {
using protocol::Message;
using Clock = SilenceWatch::Clock;

namespace {

constexpr auto kOneTry = std::chrono::seconds(5);
constexpr auto kBetweenTries = std::chrono::milliseconds(200);
constexpr auto kBackFirst = std::chrono::seconds(5);  // for what is under way by the old connection

}  // namespace

void Agent::talk_to_launcher() {
  channel_->start([this](const Message& message) { receive(message); },
                  [this](const std::string& reason) { lost_launcher(reason); });
}

void Agent::lost_launcher(const std::string& why) {
  if (ended_ || away_) return;
  channel_->close();
  go_without_launcher(why);
}

void Agent::go_without_launcher(const std::string& why) {
  if (!job_.elastic || settings_.grace_seconds <= 0) {
    end(AgentExit::lost_coordinator, "lost bellows-run: " + why);
    return;
  }
  spdlog::warn("lost bellows-run: {}; the ranks go on, for {} s if it does not come back", why,
               settings_.grace_seconds);
  away_ = true;
  away_until_ = Clock::now() + to_duration(settings_.grace_seconds);
  seek_launcher();
}

void Agent::seek_launcher() {
  if (ended_) return;
  if (Clock::now() >= away_until_) {
    end(AgentExit::lost_coordinator,
        fmt::format("no bellows-run has come back within {} s (--launcher-grace)",
                    settings_.grace_seconds));
    return;
  }
  if (std::exchange(seeking_, true)) return;  // the try of an earlier silence goes on
  greet_once(io_, settings_, launcher_address_, node_id_,
             std::min(away_until_, Clock::now() + kOneTry),
             [this](GreetingResult result) { launcher_answers(std::move(result)); });
}

void Agent::launcher_answers(GreetingResult result) {
  seeking_ = false;
  if (ended_) return;
  if (!away_) {  // it has spoken by the connection that it had
    if (result.channel) result.channel->close();
  } else if (result.channel) {
    launcher_is_back(std::move(result.channel));
  } else if (result.proved) {  // (Others may have the port meanwhile.)
    refused_by_launcher(result.refused);
  } else {
    return_timer_.expires_after(kBetweenTries);
    return_timer_.async_wait([this](const boost::system::error_code& failed) {
      if (!failed) seek_launcher();
    });
  }
}

// One that has just been continued refuses a second agent for this node, and has not yet answered
// by the connection to the first, which is this one.
void Agent::refused_by_launcher(const std::string& why) {
  const auto refused = [this, why] {
    end(AgentExit::refused, "bellows-run refuses this agent: " + why);
  };
  if (!channel_->is_open()) {
    refused();
    return;
  }
  return_timer_.expires_after(kBackFirst);
  return_timer_.async_wait([this, refused](const boost::system::error_code& failed) {
    if (!failed && away_ && !ended_) refused();
  });
}

void Agent::launcher_goes_on() {
  spdlog::warn("bellows-run is back: it was stopped, or not to be reached");
  away_ = false;
  return_timer_.cancel();
}

// Output first: the coordinator must have it when it learns that a rank has ended.
void Agent::launcher_is_back(std::shared_ptr<protocol::Channel> channel) {
  spdlog::warn("bellows-run is back");
  channel_->close();
  channel_ = std::move(channel);
  away_ = false;
  talk_to_launcher();
  for (const Message& output : output_kept_) channel_->send(output);
  channel_->send(report_to_new_launcher(requests_.move_to(channel_)));
}

Message Agent::report_to_new_launcher(std::size_t failed) const {
  NodeReport report;
  report.node = settings_.node;
  report.failed = failed;
  report.context = requests_.context();
  std::set<std::uint64_t> members;
  for (const auto& [nspace, world] : worlds_) {
    report.worlds.push_back(world.spec);
    members.insert(world.spec.members.begin(), world.spec.members.end());
  }
  for (const auto& [member, rank] : ranks_) {
    if (rank.end && !members.contains(member)) continue;  // nobody asks for it any more
    RankReport one;
    one.member = member;
    one.pid = rank.process ? rank.process->pid() : 0;
    one.seconds = std::chrono::duration<double>(Clock::now() - rank.started).count();
    one.connected = rank.connected;
    one.elastic = rank.elastic;
    one.ready = rank.ready;
    one.dismissed = rank.dismissed;
    one.released = rank.released;
    one.entered = rank.entered;
    one.left = rank.left;
    one.trouble = rank.trouble;
    one.abort_status = rank.abort_status;
    if (rank.end) one.end = rank.end->head;
    report.ranks.push_back(std::move(one));
  }
  Message message("returned");
  message.head["report"] = to_json(report);
  return message;
}

}  // namespace bellows::elastic
