// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/coordinator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>

#include "mpi_elastic/common/network.h"
#include "mpi_elastic/rank_control.h"
#include "protocol/secret.h"

namespace bellows::elastic {
using protocol::Message;

namespace {

constexpr std::string_view kNamespaces = "bellows-";

// Several launchers in one job must not share a namespace.
std::string name_of_job(const Allocation& allocation) {
  return allocation.slurm ? allocation.job + "." + std::to_string(getpid()) : allocation.job;
}

}  // namespace

Coordinator::Coordinator(boost::asio::io_context& io, RunOptions options, Allocation allocation)
    : Coordinator(io, std::move(options), allocation, protocol::random_hex(),
                  name_of_job(allocation)) {
  placed_ = place_ranks(allocation_, options_);
  options_.ranks_per_node = most_ranks_on_a_node(placed_);
}

Coordinator::Coordinator(boost::asio::io_context& io, RunOptions options, Allocation allocation,
                         std::string secret, const std::string& name)
    : io_(io),
      options_(std::move(options)),
      allocation_(std::move(allocation)),
      secret_(std::move(secret)),
      membership_(std::string(kNamespaces) + name),
      rendezvous_(membership_),
      links_(io, secret_, to_duration(options_.silence_seconds),
             {.on_hello =
                  [this](const std::string& node, std::optional<std::uint32_t> returning) {
                    return agent_says_hello(node, returning);
                  },
              .on_message = [this](const std::string& node,
                                   const Message& message) { receive(node, message); },
              .on_lost = [this](const std::string& node,
                                const std::string& reason) { agent_lost(node, reason); },
              .on_refused =
                  [](const std::string& address, const std::string& reason) {
                    spdlog::warn("refused an agent at {}: {}", address, reason);
                  }}),
      starter_(io, options_.agent, allocation_.slurm,
               [this](const std::string& node, const std::string& how) {
                 agent_process_ended(node, how);
               }),
      output_(io),
      tagger_(options_.tag_output),
      outcome_(options_.on_failure),
      limit_(io),
      signals_(io, SIGINT, SIGTERM),
      declare_timer_(io),
      phase_limit_(io),
      trouble_timer_(io),
      join_timer_(io),
      leave_timer_(io),
      departed_timer_(io),
      ending_timer_(io),
      follow_timer_(io),
      metrics_(
          io, [this] { return metrics_text(); },
          [](const std::string& failed) { spdlog::warn("{}", failed); }) {
  for (const int number : {SIGQUIT, SIGUSR1, SIGUSR2}) signals_.add(number);
  struct sigaction hangup{};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) signals_.add(SIGHUP);  // as nohup has it
  program_.arguments = options_.program;
  program_.environment = own_environment();
  program_.directory = options_.directory;
  if (isatty(STDOUT_FILENO) != 0) set_variable(program_.environment, "BELLOWS_TTY", "1");
  if (options_.elastic) {
    const auto [least, most] = *options_.elastic;
    set_variable(program_.environment, kBoundsVariable, fmt::format("{}-{}", least, most));
  }
}

std::string Coordinator::job_name() const { return membership_.base().substr(kNamespaces.size()); }

int Coordinator::run() {
  open_events();
  await_signal();
  open_control();
  open_metrics();
  start_broker();
  if (left_) {
    reattach();
  } else {
    start_agents();
  }
  io_.run();
  limit_.cancel();
  // What is left may wait for a reader that takes its time: a signal then ends this process.
  signals_.clear();
  output_.flush();
  if (broker_) broker_->end();
  const std::string summary = verdict();
  if (!summary.empty()) spdlog::error("{}", summary);
  return exit_code();
}

void Coordinator::set_limit(double seconds, void (Coordinator::*on_limit)()) {
  limit_.expires_after(to_duration(seconds));
  limit_.async_wait([this, on_limit](const boost::system::error_code& failed) {
    if (!failed) (this->*on_limit)();
  });
}

void Coordinator::start_agents() {
  // Every agent is a process here and connects at once: a larger world gets more time.
  set_limit(options_.start_seconds, &Coordinator::on_start_limit);
  try {
    links_.listen(options_.ports, !allocation_.slurm);
    AgentSettings& settings = agent_settings_;
    settings = settings_for_agents();
    const std::string port = ":" + std::to_string(links_.port());
    if (allocation_.slurm) {
      for (const std::string& address : own_addresses()) {
        settings.addresses.push_back(address + port);
      }
    }
    if (settings.addresses.empty()) settings.addresses.push_back("127.0.0.1" + port);
    // In the order of the allocation, so that rank 0 is on its first node.
    for (const auto& [node, ranks] : placed_) {
      membership_.add_node(node);
      awaited_.insert(node);
    }
    for (const auto& [node, ranks] : placed_) {
      settings.node = node;
      starter_.start(settings, job_of(node), other_nodes(node));
    }
    keep_record();
    spdlog::info("starting {} agents, reachable at {}", placed_.size(), settings.addresses[0]);
  } catch (const std::runtime_error& failed) {
    fail_start(failed.what());
  }
}

// But for the name of the node, and the addresses.
AgentSettings Coordinator::settings_for_agents() const {
  AgentSettings settings;
  settings.secret = secret_;
  settings.job = allocation_.job;
  settings.node_of_slurm = allocation_.slurm;
  settings.connect_seconds = options_.start_seconds;
  settings.silence_seconds = options_.silence_seconds;
  settings.rank_silence_seconds = options_.rank_silence_seconds;
  settings.grace_seconds = options_.grace_seconds;
  return settings;
}

// One that comes back is that of the node as it is known now: a node that was given up may be in
// use again, with another agent.
std::uint32_t Coordinator::agent_says_hello(const std::string& node,
                                            std::optional<std::uint32_t> returning) {
  const bool expected =
      state_ == State::reattaching
          ? awaited_.contains(node) && (!returning || *returning == membership_.node_id(node))
          : !returning && ((state_ == State::starting && awaited_.contains(node)) ||
                           arrivals_.contains(node));
  if (!expected) throw std::runtime_error("no agent is expected on node " + node);
  return membership_.node_id(node);
}

void Coordinator::agent_ready(const std::string& node, const Message& message) {
  spdlog::info("agent on {} is ready, {} cores", node, message.number("cores"));
  awaited_.erase(node);
  ready_nodes_.insert(node);
  links_.send(node, job_message());
  if (arrivals_.contains(node)) node_arrived(node);
  if (state_ != State::starting || !awaited_.empty()) return;

  for (const auto& [name, count] : placed_) {
    for (int i = 0; i < count; ++i) membership_.add_member(name);
  }
  const WorldSpec& world = membership_.declare_epoch();
  nspace_ = world.nspace;
  for (std::size_t rank = 0; rank < world.members.size(); ++rank) {
    ranks_[world.members[rank]].rank = static_cast<std::int64_t>(rank);
  }
  for (const auto& [name, count] : placed_) awaited_.insert(name);
  state_ = State::registering;
  links_.send_to_all(world_message(world));
}

Message Coordinator::world_message(const WorldSpec& world) const {
  Message message("world");
  message.head["world"] = to_json(world);
  // Local nodes are all on one machine, and each sees all of its cores.
  message.head["machine_ranks"] = allocation_.slurm ? 0 : world.size();
  return message;
}

Message Coordinator::job_message() const {
  Message job("job");
  job.head["program"] = to_json(program_);
  job.head["bind"] = options_.bind;
  job.head["gpus_per_rank"] = options_.gpus_per_rank;
  job.head["survives"] = options_.on_failure == OnFailure::go_on;
  job.head["elastic"] = options_.elastic.has_value();
  return job;
}

void Coordinator::world_registered(const std::string& node, const Message& message) {
  if (state_ == State::running) epoch_registered(node, message);
  if (state_ != State::registering) return;
  if (message.head.contains("error")) {
    fail_start("node " + node + ": " + message.text("error"));
    return;
  }
  awaited_.erase(node);
  if (awaited_.empty()) start_ranks();
}

void Coordinator::start_ranks() {
  limit_.cancel();
  state_ = State::running;
  Message start("start");
  start.head["nspace"] = nspace_;
  links_.send_to_all(start);
  for (auto& [member, info] : ranks_) info.holds_state = true;  // they begin it
  not_entered_ = members_of_newest();  // (in no time: programs may take long to load)
  change_started_ = declared_ = registered_ = Clock::now();
  change_kind_ = "start";
  spdlog::info("{} has {} ranks on {} nodes", nspace_, ranks_.size(), placed_.size());
  if (!options_.elastic) {
    note_event({.kind = "start",
                .text = fmt::format("{} ranks on {} nodes", ranks_.size(), placed_.size())});
  }
  input_ = std::make_unique<InputReader>(
      io_, [this](std::string bytes) { send_input(std::move(bytes)); });
}

void Coordinator::rank_started(const std::string& node, const Message& message) {
  const auto member = static_cast<std::uint64_t>(message.number("member"));
  RankInfo& info = ranks_.at(member);
  info.pid = message.number("pid");
  info.started = std::chrono::steady_clock::now();
  membership_.set_running(member);
  if (options_.report_bindings) {
    const std::string cpus = message.text("cpus");
    spdlog::warn("rank {} on {}: {}", info.rank, node, cpus.empty() ? "not bound" : "cpus " + cpus);
  }
}

void Coordinator::rank_exited(const Message& message) {
  const auto member = static_cast<std::uint64_t>(message.number("member"));
  RankEnd end;
  end.code = static_cast<int>(message.number("code"));
  end.signal = static_cast<int>(message.number("signal"));
  end.connected = message.flag("connected");
  end.finalized = message.flag("finalized");
  end.stopped = message.flag("stopped");
  if (message.head.contains("error")) end.error = message.text("error");
  end_rank(member, std::move(end));
}

// Completes what is known of the end, books it, and draws the consequences.
void Coordinator::end_rank(std::uint64_t member, RankEnd end) {
  const auto found = ranks_.find(member);
  if (found == ranks_.end()) return;
  const RankInfo& info = found->second;
  end.rank = info.rank;
  end.node = membership_.member(member)->node;
  end.pid = info.pid;
  end.abort_status = info.abort_status;
  end.connected = end.connected || info.connected;  // a lost node does not say it any more
  if (info.pid > 0) {
    end.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - info.started).count();
  }
  for (const int stream : {1, 2}) {
    const std::string rest = tagger_.finish(static_cast<std::uint64_t>(info.rank), stream);
    if (!rest.empty()) output_.write(stream, rest, nullptr);
  }
  const bool failed = is_failure(end);
  MemberState before = membership_.member(member)->state;
  // One that has neither been released nor left its world has ended for reasons of its own.
  if (leave_held_.erase(member) > 0 && info.left < info.entered) before = MemberState::running;
  membership_.end_member(member, failed ? MemberState::dead : MemberState::finished);
  // One that never was in the world, or left it while others went on, does not speak for the job.
  if (before != MemberState::joining && before != MemberState::leaving) outcome_.add(end);
  const bool closed = ended_by_itself(end) && info.entered > info.left;
  ranks_.erase(found);
  spdlog::info("{}", describe(end));

  not_entered_.erase(member);
  leave_asked_.erase(member);
  if (ranks_.empty()) {
    finish();
  } else if (options_.elastic && state_ == State::running) {
    member_ended(member, end, before, closed);
  } else if (failed && state_ == State::running) {
    if (options_.on_failure == OnFailure::stop) {
      stop_ranks_after(end);
    } else {
      spdlog::warn("{}; the others go on", describe(end));
      announce({member});
      died_before_init_ = died_before_init_ || !end.connected;
      check_incomplete_world();
    }
  }
  forget_procs(membership_.procs_of(member));
}

void Coordinator::announce(const std::vector<std::uint64_t>& dead) {
  std::vector<Proc> procs;
  for (const std::uint64_t member : dead) {
    const std::vector<Proc> identities = membership_.procs_of(member);
    procs.insert(procs.end(), identities.begin(), identities.end());
  }
  std::vector<std::string> targets;
  for (const auto& [nspace, spec] : membership_.worlds()) targets.push_back(nspace);
  tell_failed(procs, targets);
}

// These processes count as dead for those of the namespaces `targets`.
void Coordinator::tell_failed(const std::vector<Proc>& procs,
                              const std::vector<std::string>& targets) {
  Message message("failed");
  message.head["procs"] = to_json(procs);
  message.head["targets"] = boost::json::value_from(targets);
  links_.send_to_all(message);
}

void Coordinator::agent_lost(const std::string& node, const std::string& reason) {
  if (state_ == State::finishing) return;
  if (state_ == State::starting || state_ == State::registering) {
    fail_start("node " + node + " was lost while the job started: " + reason);
    return;
  }
  ready_nodes_.erase(node);
  if (state_ == State::reattaching) {  // it may come again
    reports_.erase(node);
    std::erase_if(held_messages_, [&](const auto& held) { return held.first == node; });
    if (starter_.pid_of(node) != 0) awaited_.insert(node);
    return;
  }
  if (departing_nodes_.contains(node)) return;
  const std::string text = fmt::format("node {} is lost: {}", node, reason);
  note_event({.kind = "lost", .nodes = {node}, .text = text});
  spdlog::warn("{}", text);
  starter_.kill_one(node);
  unregistered_.erase(node);
  arrivals_.erase(node);
  for (const std::uint64_t member : membership_.members_on(node)) {
    RankEnd end;
    end.node_lost = true;
    end.stopped = state_ == State::stopping;
    end.error = reason;
    end_rank(member, std::move(end));
  }
  membership_.lose_node(node);
  lost_nodes_.insert(node);
  keep_record();
  if (state_ != State::running) return;
  enter_when_registered();  // if it was the last one that was waited for, and none of its ranks is
  answer_waiting();
}

void Coordinator::agent_process_ended(const std::string& node, const std::string& how) {
  if (departing_nodes_.erase(node) > 0) {
    spdlog::info("node {} is free", node);
    if (arrivals_.contains(node)) start_arrival(node);  // it is wanted again
    answer_waiting();
    if (state_ != State::finishing) return;
  }
  if (state_ == State::finishing) {
    if (starter_.running() == 0) io_.stop();
  } else if (state_ == State::reattaching) {
    stop_awaiting(node);
  } else if (arrivals_.contains(node) && !links_.connected(node)) {
    node_failed_to_arrive(node, "its agent did not start: " + how);
  } else if (awaited_.contains(node) && !links_.connected(node)) {
    fail_start("the agent on node " + node + " did not start: " + how);
  }
  // Otherwise its connection is gone too, or will be silent: that is what counts.
  if (state_ == State::running) answer_waiting();
}

void Coordinator::on_start_limit() {
  fail_start("no word from the agent on " + fmt::format("{}", fmt::join(awaited_, " ")) +
             " within " + std::to_string(static_cast<int>(options_.start_seconds)) +
             " s (--start-timeout); is the node up, and does a firewall let it reach this one?");
}

}  // namespace bellows::elastic
