// SPDX-License-Identifier: Apache-2.0
// The agent's part in a world that changes: joiners, the way from one epoch to the next, and the
// ranks' signs of life.
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/json.hpp>
#include <fstream>
#include <set>

#include "mpi_elastic/agent/agent.h"
#include "mpi_elastic/agent/rank_environment.h"
#include "mpi_elastic/rank_control.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Channel;
using protocol::Message;

namespace {

std::vector<std::uint64_t> members_of(const Message& message) {
  return json::value_to<std::vector<std::uint64_t>>(message.head.at("members"));
}

// A joiner has no place yet.
bool tells_place(const std::string& variable) {
  return variable.starts_with("OMPI_COMM_WORLD_") || variable.starts_with("SLURM_PROCID=") ||
         variable.starts_with("SLURM_NTASKS=") || variable.starts_with("SLURM_LOCALID=") ||
         variable.starts_with("SLURM_NODEID=") || variable.starts_with("SLURM_NNODES=");
}

// From /proc: stopped by a signal.
bool is_suspended(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.size() > name_end + 2 && line[name_end + 2] == 'T';
}

}  // namespace

std::vector<std::string> Agent::joiner_environment() {
  const auto running =
      static_cast<std::uint32_t>(std::count_if(ranks_.begin(), ranks_.end(), [](const auto& rank) {
        return rank.second.process != nullptr;
      }));
  RankPlace place;
  place.local_rank = running;
  place.local_size = running + 1;
  place.size = running + 1;
  place.cores = topology_.cores();
  place.gpus_per_rank = job_.gpus_per_rank;
  place.network = network_;
  place.memory_folder = folder_.memory();
  std::vector<std::string> environment =
      rank_environment(job_.program.environment, own_environment(), {}, place);
  std::erase_if(environment, tells_place);
  set_variable(environment, kJoinerVariable, "1");
  return environment;
}

void Agent::start_joiners(const Message& message) {
  for (const std::uint64_t member : members_of(message)) {
    Rank& entry = ranks_[member];
    entry.member = member;
    SpawnRequest request;
    try {
      request.environment = joiner_environment();
    } catch (const std::runtime_error& failed) {
      report_not_started(member, failed);
      continue;
    }
    fork_rank(entry, std::move(request), "", false);
  }
}

void Agent::enter_world(const Message& message) {
  const auto found = worlds_.find(message.text("nspace"));
  if (found == worlds_.end()) throw protocol::ProtocolError("entry to a world not registered");
  const WorldSpec& spec = found->second.spec;
  const NodeShare* mine = spec.share_of(settings_.node);
  if (mine == nullptr) return;
  for (std::uint32_t rank = mine->first; rank < mine->first + mine->count; ++rank) {
    const auto member = ranks_.find(spec.members[rank]);
    if (member == ranks_.end()) continue;  // it has ended meanwhile
    member->second.proc = {found->first, rank};
    member->second.dismissed = member->second.released = false;  // or called back
    send_place(member->second, message.flag("urgent"));
  }
}

void Agent::send_place(Rank& rank, bool urgent) {
  const World& world = worlds_.at(rank.proc.nspace);
  if (!rank.control) return;
  std::vector<std::string> environment =
      environment_of(world, static_cast<std::uint32_t>(rank.proc.rank));
  // What the rank has from its start need not be sent.
  const std::set<std::string> known(job_.program.environment.begin(),
                                    job_.program.environment.end());
  std::erase_if(environment, [&](const std::string& variable) { return known.contains(variable); });
  Message order("world");
  order.head["epoch"] = world.spec.epoch;
  order.head["environment"] = json::value_from(environment);
  order.head["urgent"] = urgent;
  rank.control->send(order);
}

// To leave, or that they may go: `told` remembers it for a process that replaces itself.
void Agent::tell_leavers(const Message& message, bool Rank::* told) {
  for (const std::uint64_t member : members_of(message)) {
    const auto found = ranks_.find(member);
    if (found == ranks_.end()) continue;
    found->second.*told = true;
    if (found->second.control) found->second.control->send(Message(message.type()));
  }
}

void Agent::kill_ranks(const Message& message) {
  for (const std::uint64_t member : members_of(message)) {
    const auto found = ranks_.find(member);
    if (found == ranks_.end() || !found->second.process) continue;
    found->second.stopped = message.flag("stop");
    found->second.process->signal(SIGKILL);
  }
}

void Agent::forget_worlds(const Message& message) {
  for (const json::value& value : message.array("nspaces")) {
    const std::string nspace(value.as_string());
    if (worlds_.erase(nspace) > 0) host_.deregister_world(nspace);
    std::erase_if(modex_, [&](const auto& entry) { return entry.first.nspace == nspace; });
  }
}

void Agent::listen_to(std::uint64_t member, int fd) {
  Channel::Socket socket(io_);
  socket.assign(boost::asio::local::stream_protocol(), fd);
  auto channel = std::make_shared<Channel>(std::move(socket));
  ranks_.at(member).control = channel;
  // A rank that closes its end may have ended: of that its process tells.
  channel->start([this, member](const Message& message) { heard_from(member, message); },
                 [](const std::string&) {});
}

void Agent::heard_from(std::uint64_t member, const Message& message) {
  Rank& rank = ranks_.at(member);
  const std::string_view type = message.type();
  rank.elastic = true;
  Message report = message;
  report.head["member"] = member;
  if (type == "replacing") {
    rank.replacing = true;
    return;
  }
  if (type == "pong") {
    report.head["type"] = "progress";
  } else if (type == "ready") {
    rank.ready = true;
    rank.replacing = false;
    report.head["type"] = "member-ready";
    // One that has replaced its process goes where it was told to go before.
    const auto world = worlds_.find(rank.proc.nspace);
    if (rank.dismissed) {
      rank.control->send(Message("leave"));
      if (rank.released) rank.control->send(Message("release"));
    } else if (world != worlds_.end()) {
      send_place(rank, true);
    }
  } else if (type == "entered" || type == "left" || type == "trouble") {
    auto& epoch = type == "entered" ? rank.entered : type == "left" ? rank.left : rank.trouble;
    epoch = static_cast<std::uint32_t>(message.number("epoch"));
  } else if (type != "elastic" && type != "in-step" && type != "request") {
    spdlog::warn("unknown message \"{}\" from a rank", type);
    return;
  }
  channel_->send(report);
}

// A rank that is stopped (or starved for so long) holds up all others, who cannot tell.
void Agent::look_for_silent_ranks() {
  rank_timer_.expires_after(rank_silence_.interval());
  rank_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed || ended_) return;
    rank_silence_.tick();
    const auto never = SilenceWatch::Clock::time_point::max();
    for (auto& [member, rank] : ranks_) {
      if (!rank.control || !rank.process || !rank.process->running()) continue;
      // One that (still or again) loads does not answer, but it can be seen to be stopped.
      const bool answers = rank.elastic && !rank.replacing;
      if (!is_suspended(rank.process->pid())) {
        rank.suspended.reset();
      } else if (!rank.suspended) {
        rank.suspended = SilenceWatch::Clock::now();
      }
      if (rank_silence_.silent(answers ? rank.control->last_heard()
                                       : rank.suspended.value_or(never))) {
        spdlog::warn("process {} gives no sign of life for {} s (--rank-timeout); killing it",
                     rank.process->pid(), settings_.rank_silence_seconds);
        rank.process->signal(SIGKILL);
      } else if (answers) {
        rank.control->send(Message("ping"));
      }
    }
    look_for_silent_ranks();
  });
}

}  // namespace bellows::elastic
