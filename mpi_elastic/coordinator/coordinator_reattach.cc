// SPDX-License-Identifier: Apache-2.0
// One launcher follows another: a record of the job is kept for the case that this process dies,
// and the one that takes over finds the job again in what the agents report. Requests that were
// open when the last one died have failed; where that can matter, a new epoch makes all of the old
// one void.
#include <spdlog/spdlog.h>

#include <boost/json.hpp>

#include "mpi_elastic/common/process.h"
#include "mpi_elastic/coordinator/coordinator.h"

namespace bellows::elastic {
using protocol::Message;

Coordinator::Coordinator(boost::asio::io_context& io, JobRecord left)
    : Coordinator(io, left.options, left.allocation, left.secret, left.name) {
  program_ = left.program;
  left_ = std::move(left);
  state_ = State::reattaching;
}

// For the one after this, if there may be one. Written anew whenever nodes come or go.
void Coordinator::keep_record() {
  const bool may_follow = options_.elastic && options_.grace_seconds > 0 && control_;
  if (!may_follow || state_ == State::finishing) return;
  JobRecord record;
  record.name = job_name();
  record.secret = secret_;
  record.port = links_.port();
  record.addresses = agent_settings_.addresses;
  record.allocation = allocation_;
  record.options = options_;
  record.program = program_;
  for (const auto& [name, id] : membership_.nodes()) {
    const pid_t pid = starter_.pid_of(name);
    record.nodes.push_back({name, id, pid, process_started(pid)});
  }
  record.next_node = membership_.next_node();
  try {
    if (!job_file_) job_file_ = std::make_unique<JobFile>(record.name);
    job_file_->write(record);
  } catch (const std::runtime_error& failed) {
    spdlog::warn("should bellows-run die, nobody could take the job over: {}", failed.what());
  }
}

void Coordinator::reattach() {
  links_.listen({left_->port, left_->port}, !allocation_.slurm);
  agent_settings_ = settings_for_agents();
  agent_settings_.addresses = left_->addresses;
  for (const JobNode& node : left_->nodes) {
    membership_.restore_node(node.name, node.id);
    if (starter_.adopt(node.name, static_cast<pid_t>(node.pid), node.started)) {
      awaited_.insert(node.name);
    } else {
      spdlog::warn("the agent on {} has ended", node.name);
    }
  }
  membership_.set_next_node(left_->next_node);
  job_file_ = std::make_unique<JobFile>(left_->name);
  spdlog::info("waiting for {} agents of job {}", awaited_.size(), left_->name);
  set_limit(options_.start_seconds, &Coordinator::on_reattach_limit);
  if (awaited_.empty()) rebuild();
}

void Coordinator::on_reattach_limit() {
  for (const std::string& node : awaited_) {
    spdlog::warn("no word from the agent on {} within {} s (--start-timeout)", node,
                 options_.start_seconds);
    starter_.kill_one(node);
  }
  awaited_.clear();
  rebuild();
}

// All but the reports has to wait for them.
void Coordinator::hear_returning(const std::string& node, const Message& message) {
  if (message.type() == "returned") {
    NodeReport report = node_report_from_json(message.object("report"));
    report.node = node;
    reports_[node] = std::move(report);
  } else if (message.type() == "ready") {  // was about to come when the last launcher died
    links_.send(node, job_message());
  } else {
    held_messages_.emplace_back(node, message);
    return;
  }
  ready_nodes_.insert(node);
  stop_awaiting(node);
}

void Coordinator::stop_awaiting(const std::string& node) {
  if (awaited_.erase(node) > 0 && awaited_.empty()) rebuild();
}

void Coordinator::rebuild() {
  limit_.cancel();
  std::vector<NodeReport> reports;
  for (auto& [node, report] : reports_) reports.push_back(std::move(report));
  reports_.clear();
  const FoundJob found = restore(membership_, reports);
  take_over_ranks(reports, found);
  if (ranks_.empty()) {
    fail_start("no ranks are left of job " + left_->name);
    return;
  }
  replay(true);
  book_ends(reports, found);
  for (const JobNode& node : left_->nodes) {
    if (!ready_nodes_.contains(node.name)) membership_.lose_node(node.name);
  }
  if (state_ != State::running) return;
  if (found.broken) {
    for (const auto& [nspace, world] : membership_.worlds()) world_is_broken(nspace);
    announce({found.gone.begin(), found.gone.end()});
    change_world("bellows-run was started anew during a change", true);
  }
  replay(false);
  if (phase_ == Phase::steady) release_leavers();
  for (const std::uint64_t member : membership_.members_in(MemberState::joining)) {
    if (ranks_.contains(member) && ranks_.at(member).ready) joiner_ready(member);
  }
  keep_record();
  release_empty_nodes();
  for (const int number : std::exchange(held_signals_, {})) forward_signal(number);
}

// From here on the job is one that runs.
void Coordinator::take_over_ranks(const std::vector<NodeReport>& reports, const FoundJob& found) {
  const auto now = Clock::now();
  const auto place = [this](std::uint64_t member) {
    const std::optional<Proc> proc = membership_.newest_proc(member);
    return proc ? proc->rank : -1;
  };
  for (const NodeReport& report : reports) {
    for (const RankReport& rank : report.ranks) {
      if (found.gone.contains(rank.member) || (rank.end && place(rank.member) < 0)) continue;
      RankInfo& info = ranks_[rank.member];
      info.rank = place(rank.member);
      info.pid = rank.pid;
      info.started = now - to_duration(rank.seconds);
      info.connected = rank.connected;
      info.elastic = rank.elastic;
      info.ready = rank.ready;
      info.entered = rank.entered;
      info.holds_state = rank.entered > 0 || place(rank.member) >= 0;
      info.left = rank.left;
      info.abort_status = rank.abort_status;
      uses_mpi_ = uses_mpi_ || rank.connected;
    }
  }
  for (const std::uint64_t member : found.lost) ranks_[member].rank = place(member);
  if (ranks_.empty()) return;
  const WorldSpec* world = membership_.newest();
  nspace_ = world != nullptr ? world->nspace : "";
  rendezvous_.contexts_from(found.context + 1);
  not_entered_ = found.not_entered;
  leave_held_ = found.held;
  phase_ = found.broken || !not_entered_.empty() ? Phase::entering : Phase::steady;
  change_started_ = declared_ = registered_ = now;
  state_ = State::running;
  input_ = std::make_unique<InputReader>(
      io_, [this](std::string bytes) { send_input(std::move(bytes)); });
  const std::string text =
      fmt::format("took over job {}: world {}, {} ranks on {} nodes", left_->name,
                  world != nullptr ? world->epoch : 0, ranks_.size(), ready_nodes_.size());
  stood_ = members_of_newest();
  note_event({.kind = "reattach", .text = text});
  spdlog::warn("{}", text);
}

// What agents have sent since they came back: the ranks' output, or all else.
void Coordinator::replay(bool output) {
  std::deque<std::pair<std::string, Message>> others;
  for (auto& [node, message] : std::exchange(held_messages_, {})) {
    if ((message.type() == "output") == output) {
      receive(node, message);
    } else {
      others.emplace_back(node, std::move(message));
    }
  }
  held_messages_ = std::move(others);
}

// Ends that were not heard of, or of which the world was not told any more.
void Coordinator::book_ends(const std::vector<NodeReport>& reports, const FoundJob& found) {
  for (const std::uint64_t member : found.lost) {
    RankEnd end;
    end.node_lost = true;
    end.error = "its agent did not come back to bellows-run";
    end_rank(member, std::move(end));
  }
  for (const NodeReport& report : reports) {
    for (const RankReport& rank : report.ranks) {
      if (!rank.end || !ranks_.contains(rank.member)) continue;
      Message exited;
      exited.head = *rank.end;
      rank_exited(exited);
    }
  }
}

}  // namespace bellows::elastic
