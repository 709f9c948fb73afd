// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/agent/agent.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/json.hpp>
#include <tuple>

#include "mpi_elastic/agent/rank_environment.h"
#include "mpi_elastic/common/network.h"
#include "mpi_elastic/rank_control.h"

namespace bellows::elastic {
using protocol::Message;

namespace {

// Output that may be on its way to the coordinator before the ranks' pipes are left to fill up: a
// reader that is slow slows the ranks, as it would in a pipe.
constexpr std::size_t kOutputHigh = std::size_t{4} << 20;
constexpr std::size_t kOutputLow = kOutputHigh / 2;

std::string address_only(const std::string& with_port) {
  return with_port.substr(0, with_port.rfind(':'));
}

}  // namespace

Agent::Agent(boost::asio::io_context& io, AgentSettings settings, std::uint32_t node_id,
             std::shared_ptr<protocol::Channel> channel)
    : io_(io),
      settings_(std::move(settings)),
      node_id_(node_id),
      channel_(std::move(channel)),
      network_(network_of(address_only(channel_->local_address()))),
      signals_(io, SIGTERM, SIGINT, SIGHUP),
      folder_(settings_.job),
      host_(io, *this, topology_,
            {.node = settings_.node,
             .node_id = node_id,
             .job = settings_.job,
             .folder = folder_.path()}),
      silence_(to_duration(settings_.silence_seconds)),
      requests_(channel_),
      beat_timer_(io),
      rank_silence_(to_duration(settings_.rank_silence_seconds)),
      rank_timer_(io),
      return_timer_(io),
      launcher_address_(channel_->remote_address()) {
  signals_.add(SIGUSR1);
  signals_.add(SIGUSR2);
}

AgentExit Agent::run() {
  talk_to_launcher();
  Message ready("ready");
  ready.head["cores"] = topology_.cores();
  channel_->send(ready);
  beat();
  look_for_silent_ranks();
  await_signal();
  io_.run();
  return exit_code_;
}

void Agent::end(AgentExit code, const std::string& why) {
  if (ended_) return;
  ended_ = true;
  exit_code_ = code;
  if (code != AgentExit::ok) spdlog::error("{}; ending the ranks on this node", why);
  for (auto& [member, rank] : ranks_) {
    if (rank.process) rank.process->signal(SIGKILL);
  }
  channel_->close();
  io_.stop();
}

void Agent::beat() {
  beat_timer_.expires_after(silence_.interval());
  beat_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed || ended_) return;
    silence_.tick();
    if (!away_ && silence_.silent(channel_->last_heard())) {
      go_without_launcher("silent for more than " +
                          std::to_string(static_cast<int>(settings_.silence_seconds)) + " s");
    }
    if (ended_) return;
    channel_->send(Message("ping"));
    beat();
  });
}

// Slurm signals the processes of a step, and thereby the agent: the ranks are in groups of their
// own, so what is meant for them is passed on, and the agent stays to report their end. Where only
// this node is taken the coordinator lets its ranks leave.
void Agent::await_signal() {
  signals_.async_wait([this](const boost::system::error_code& failed, int number) {
    if (failed || ended_) return;
    const bool notice = settings_.notice && number == SIGTERM;
    Message message(notice ? "notice" : "signalled");
    message.head["signal"] = number;
    channel_->send(message);
    for (auto& [member, rank] : ranks_) {
      if (rank.process && !notice) rank.process->signal(number);
    }
    await_signal();
  });
}

void Agent::receive(const Message& message) {
  if (away_) launcher_goes_on();
  if (requests_.take(message)) return;
  const std::string_view type = message.type();
  if (type == "pong") return;
  if (type == "job") {
    take_job(message);
  } else if (type == "world") {
    register_world(message);
  } else if (type == "start") {
    start_world(message);
  } else if (type == "join") {
    start_joiners(message);
  } else if (type == "enter") {
    enter_world(message);
  } else if (type == "leave") {
    tell_leavers(message, &Rank::dismissed);
  } else if (type == "release") {
    tell_leavers(message, &Rank::released);
  } else if (type == "kill") {
    kill_ranks(message);
  } else if (type == "forget") {
    forget_worlds(message);
  } else if (type == "failed") {
    failed_elsewhere(message);
  } else if (type == "signal") {
    signal_ranks(message);
  } else if (type == "input") {
    input(message);
  } else if (type == "output-taken") {
    output_taken(static_cast<std::size_t>(message.number("bytes")));
  } else if (type == "modex-wanted") {
    modex_wanted(message);
  } else if (type == "finish") {
    end(AgentExit::ok, "");
  } else {
    spdlog::warn("unknown message \"{}\" from bellows-run", type);
  }
}

void Agent::take_job(const Message& message) {
  job_.program = program_from_json(message.object("program"));
  job_.bind = message.text("bind");
  job_.gpus_per_rank = static_cast<int>(message.number("gpus_per_rank"));
  job_.survives = message.flag("survives");
  job_.elastic = message.flag("elastic");
}

void Agent::register_world(const Message& message) {
  World world;
  world.spec = world_spec_from_json(message.object("world"));
  const NodeShare* mine = world.spec.share_of(settings_.node);
  if (mine != nullptr) {
    world.machine_ranks =
        std::max(static_cast<std::uint32_t>(message.number("machine_ranks")), mine->count);
  }
  Message reply("registered");
  reply.head["nspace"] = world.spec.nspace;
  try {
    if (mine != nullptr) {
      BindPolicy policy = bind_policy(job_.bind);
      // Several nodes on one machine would bind their ranks to the same cores; ranks that come and
      // go would have to be bound anew.
      if (policy == BindPolicy::automatic && (world.machine_ranks > mine->count || job_.elastic)) {
        policy = BindPolicy::none;
      }
      world.bindings = bind_ranks(topology_, static_cast<int>(mine->count), policy);
    }
    host_.register_world(world.spec, job_.program, world.bindings);
    worlds_[world.spec.nspace] = std::move(world);
  } catch (const std::runtime_error& failed) {
    reply.head["error"] = failed.what();
  }
  channel_->send(reply);
}

std::vector<std::string> Agent::environment_of(const World& world, std::uint32_t rank) {
  const NodeShare& mine = *world.spec.share_of(settings_.node);
  RankPlace place;
  place.rank = rank;
  place.size = world.spec.size();
  place.local_rank = rank - mine.first;
  place.local_size = mine.count;
  place.node = static_cast<std::uint32_t>(&mine - world.spec.nodes.data());
  place.nodes = static_cast<std::uint32_t>(world.spec.nodes.size());
  place.cores = topology_.cores();
  place.machine_ranks = world.machine_ranks;
  place.gpus_per_rank = job_.gpus_per_rank;
  place.network = network_;
  place.memory_folder = folder_.memory();
  return rank_environment(job_.program.environment, own_environment(),
                          host_.rank_environment({world.spec.nspace, rank}), place);
}

void Agent::start_world(const Message& message) {
  const auto found = worlds_.find(message.text("nspace"));
  if (found == worlds_.end()) throw protocol::ProtocolError("start of a world not registered");
  const NodeShare* mine = found->second.spec.share_of(settings_.node);
  if (mine == nullptr) return;
  for (std::uint32_t i = 0; i < mine->count; ++i) start_rank(found->second, mine->first + i);
}

void Agent::start_rank(const World& world, std::uint32_t rank) {
  const std::uint64_t member = world.spec.members[rank];
  const std::uint32_t local = rank - world.spec.share_of(settings_.node)->first;
  Rank& entry = ranks_[member];
  entry.member = member;
  entry.proc = {world.spec.nspace, rank};
  SpawnRequest request;
  std::string cpus;
  if (local < world.bindings.size()) {
    request.cpus = world.bindings[local].set();
    cpus = world.bindings[local].cpus;
  }
  try {
    request.environment = environment_of(world, rank);
  } catch (const std::runtime_error& failed) {
    report_not_started(member, failed);
    return;
  }
  fork_rank(entry, std::move(request), cpus, rank == 0);  // the launcher's input is rank 0's
}

// `request` has the environment; the rest is the same for all ranks.
void Agent::fork_rank(Rank& entry, SpawnRequest request, const std::string& cpus,
                      bool takes_input) {
  const std::uint64_t member = entry.member;
  try {
    request.arguments = job_.program.arguments;
    request.directory = job_.program.directory;
    request.pipes = true;
    request.die_with_parent = true;
    request.block_sigterm = settings_.notice;
    request.ignore_sigpipe = job_.survives;  // MPI writes to the sockets of the dead
    Fd ours, theirs;
    if (job_.elastic) {
      std::tie(ours, theirs) = socket_pair();
      request.inherited = theirs.get();
      set_variable(request.environment, kControlVariable, std::to_string(theirs.get()));
    }
    Process process = spawn(request);
    Message started("started");
    started.head["member"] = member;
    started.head["pid"] = process.pid;
    started.head["cpus"] = cpus;
    channel_->send(started);
    entry.started = SilenceWatch::Clock::now();
    if (ours.valid()) listen_to(member, ours.release());
    entry.process = std::make_shared<RankProcess>(
        io_, std::move(process),
        RankProcess::Events{[this, member](RankProcess::Stream stream, std::string bytes) {
                              rank_output(member, stream, std::move(bytes));
                            },
                            [this, member](int status) { rank_ended(member, status); },
                            [this, member](std::size_t bytes) {
                              Message taken("input-taken");
                              taken.head["member"] = member;
                              taken.head["bytes"] = bytes;
                              channel_->send(taken);
                            }});
    entry.process->start();
    if (!takes_input) entry.process->close_input();
    entry.process->hold_output(output_held_);
  } catch (const std::exception& failed) {
    report_not_started(member, failed);
  }
}

void Agent::report_not_started(std::uint64_t member, const std::exception& failed) {
  const auto* spawn_error = dynamic_cast<const SpawnError*>(&failed);
  Message exited("exited");
  exited.head["member"] = member;
  // As a shell has it: 127 for what is not there, 126 for what cannot be run.
  exited.head["code"] = spawn_error != nullptr && spawn_error->code() == ENOENT ? 127 : 126;
  exited.head["signal"] = 0;
  exited.head["finalized"] = false;
  exited.head["connected"] = false;
  exited.head["stopped"] = false;
  exited.head["error"] = failed.what();
  report_end(member, std::move(exited));
}

void Agent::report_end(std::uint64_t member, Message exited) {
  channel_->send(exited);
  ranks_.at(member).end = std::move(exited);
}

void Agent::rank_output(std::uint64_t member, RankProcess::Stream stream, std::string bytes) {
  output_underway_ += bytes.size();
  Message message("output", std::move(bytes));
  message.head["member"] = member;
  message.head["error"] = stream == RankProcess::Stream::err;
  channel_->send(message);
  if (job_.elastic && settings_.grace_seconds > 0) output_kept_.push_back(std::move(message));
  if (!output_held_ && output_underway_ > kOutputHigh) {
    output_held_ = true;
    for (auto& [id, rank] : ranks_) {
      if (rank.process) rank.process->hold_output(true);
    }
  }
}

void Agent::output_taken(std::size_t bytes) {
  // Messages are taken one by one, in their order.
  if (!output_kept_.empty() && output_kept_.front().body.size() == bytes) output_kept_.pop_front();
  output_underway_ -= std::min(bytes, output_underway_);
  if (output_held_ && output_underway_ < kOutputLow) {
    output_held_ = false;
    for (auto& [id, rank] : ranks_) {
      if (rank.process) rank.process->hold_output(false);
    }
  }
}

void Agent::rank_ended(std::uint64_t member, int status) {
  Rank& rank = ranks_.at(member);
  if (rank.control) rank.control->close();
  rank.control.reset();
  Message message("exited");
  message.head["member"] = member;
  message.head["code"] = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  message.head["signal"] = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  message.head["finalized"] = rank.finalized;
  message.head["connected"] = rank.connected;
  message.head["stopped"] = rank.stopped;
  report_end(member, std::move(message));
  // A rank that died is left to the library, which notices the end of its connection and then no
  // longer waits for it in collectives; deregistering it would keep the library from noticing.
  if (rank.finalized) host_.deregister(rank.connected_as);
}

Agent::Rank* Agent::rank_of(const Proc& proc) {
  for (auto& [member, rank] : ranks_) {
    if (rank.proc == proc || rank.connected_as == proc) return &rank;
  }
  return nullptr;
}

void Agent::failed_elsewhere(const Message& message) {
  const std::vector<Proc> dead = procs_from_json(message.head.at("procs"));
  host_.announce_failure(
      dead, boost::json::value_to<std::vector<std::string>>(message.head.at("targets")));
}

void Agent::signal_ranks(const Message& message) {
  const int said = static_cast<int>(message.number("signal"));
  const int number = settings_.notice && said == SIGTERM ? SIGUSR1 : said;
  for (auto& [member, rank] : ranks_) {
    if (!rank.process || !rank.process->running()) continue;
    rank.stopped = rank.stopped || (message.flag("stop") && !rank.process->has_ended());
    rank.process->signal(number);
    if (said == SIGTERM) rank.process->signal(SIGCONT);  // a stopped rank could not act on it
  }
}

void Agent::input(const Message& message) {
  const auto found = ranks_.find(static_cast<std::uint64_t>(message.number("member")));
  if (found == ranks_.end() || !found->second.process) return;
  if (!message.body.empty()) found->second.process->write_input(message.body);
  if (message.flag("end")) found->second.process->close_input();
}

}  // namespace bellows::elastic
