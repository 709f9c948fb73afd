// SPDX-License-Identifier: Apache-2.0
// How a job ends: after a failure, by a signal, in order; and that it does end.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "mpi_elastic/coordinator/coordinator.h"

namespace bellows::elastic {
using protocol::Message;

namespace {

constexpr double kFinishSeconds = 10;  // for agents to clean up and go
// The word of a rank's end can be slower than MPI, which lets others end because of it.
constexpr double kCauseSeconds = 1;
// What makes one rank end with an exit code (a wrong option, a missing file) often ends the others
// too: this long they may end by themselves, with what they have to say.
constexpr double kOthersSeconds = 0.5;
// Ctrl-C twice within this time ends the job at once, as with srun.
constexpr auto kSecondInterrupt = std::chrono::seconds(1);

}  // namespace

void Coordinator::stop_ranks_after(const RankEnd& end) {
  // (A rank that ends inside MPI drags the others down by errors of theirs, not for its reasons.)
  died_before_init_ = died_before_init_ || !end.connected;
  const bool incomplete = uses_mpi_ && died_before_init_;
  if (incomplete || (!ended_by_itself(end) && !is_consequence(end))) {
    stop_ranks();
  } else if (!stop_planned_) {
    stop_planned_ = true;
    set_limit(is_consequence(end) ? kCauseSeconds : kOthersSeconds, &Coordinator::stop_ranks);
  }
}

// The first world needs everyone: without one of them MPI_Init would not return in the others.
void Coordinator::check_incomplete_world() {
  if (state_ != State::running || !uses_mpi_ || !died_before_init_) return;
  spdlog::warn("a rank has ended before MPI_Init: the world cannot form; stopping the others");
  stop_ranks();
}

void Coordinator::fail_start(const std::string& reason) {
  if (!start_failure_.empty()) return;
  start_failure_ = reason;
  if (ranks_.empty() || state_ != State::running) finish();
}

void Coordinator::stop_ranks() {
  state_ = State::stopping;
  Message message("signal");
  message.head["signal"] = SIGTERM;
  message.head["stop"] = true;
  links_.send_to_all(message);
  set_limit(options_.kill_wait_seconds, &Coordinator::on_stop_limit);
}

void Coordinator::on_stop_limit() {
  if (killed_) {  // not even SIGKILL ends them: a node that hangs
    std::set<std::string> nodes;
    for (const auto& [member, info] : ranks_) nodes.insert(membership_.member(member)->node);
    spdlog::warn("ranks on {} do not end; leaving them", fmt::join(nodes, " "));
    finish();
    return;
  }
  killed_ = true;
  Message message("signal");
  message.head["signal"] = SIGKILL;
  message.head["stop"] = true;
  links_.send_to_all(message);
  set_limit(options_.silence_seconds + options_.kill_wait_seconds, &Coordinator::on_stop_limit);
}

// What went wrong, or nothing.
std::string Coordinator::verdict() const {
  if (!start_failure_.empty()) return start_failure_;
  return stop_reason_.empty() ? outcome_.summary() : stop_reason_;
}

int Coordinator::exit_code() const {
  const bool failed = !start_failure_.empty() || !stop_reason_.empty();
  return failed ? std::max(outcome_.exit_code(), 1) : outcome_.exit_code();
}

void Coordinator::finish() {
  if (state_ == State::finishing) return;
  state_ = State::finishing;
  const std::string summary = verdict();
  note_event({.kind = "end",
              .text = fmt::format("{}; exit code {}",
                                  summary.empty() ? "all ranks have ended in order" : summary,
                                  exit_code())});
  job_file_.reset();
  control_.reset();
  metrics_.close();
  for (const std::string& node : starter_.nodes()) {
    // It would not hear; but one that was sent home before is still cleaning up.
    if (!links_.connected(node) && !departing_nodes_.contains(node)) starter_.kill_one(node);
  }
  links_.send_to_all(Message("finish"));
  set_limit(kFinishSeconds, &Coordinator::on_finish_limit);
  if (starter_.running() == 0) io_.stop();
}

void Coordinator::on_finish_limit() {
  starter_.kill_all();
  io_.stop();
}

void Coordinator::await_signal() {
  signals_.async_wait([this](const boost::system::error_code& failed, int number) {
    if (failed) return;
    forward_signal(number);
    await_signal();
  });
}

void Coordinator::forward_signal(int number) {
  const auto now = std::chrono::steady_clock::now();
  const bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
  if (state_ == State::starting || state_ == State::registering) {
    if (ends) fail_start("stopped by " + signal_text(number) + " before the ranks had started");
    return;
  }
  if (state_ == State::finishing) return;
  if (state_ == State::reattaching) {
    held_signals_.push_back(number);
    return;
  }
  // The terminal is gone. To a rank SIGHUP may mean anything, to UCX that it is to be debugged.
  if (number == SIGHUP) number = SIGTERM;
  if (number == SIGINT && last_interrupt_ && now - *last_interrupt_ < kSecondInterrupt) {
    spdlog::warn("interrupted twice: killing the ranks");
    killed_ = true;
    state_ = State::running;  // what ends now ends by the user's wish
    number = SIGKILL;
    set_limit(options_.silence_seconds + options_.kill_wait_seconds, &Coordinator::on_stop_limit);
  } else if (number == SIGINT) {
    last_interrupt_ = now;
  }
  Message message("signal");
  message.head["signal"] = number;
  message.head["stop"] = false;
  links_.send_to_all(message);
}

}  // namespace bellows::elastic
