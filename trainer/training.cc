// SPDX-License-Identifier: Apache-2.0
#include "trainer/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "mpi_elastic/timeline.h"
#include "trainer/adaptation/batch_rule.h"
#include "trainer/errors.h"
#include "trainer/signals.h"
#include "trainer/state/snapshot.h"
#include "trainer/team/place.h"

namespace bellows::trainer {

namespace {

using Clock = std::chrono::steady_clock;

// In a checkpoint after whose step a test is due that has not been made; in no other.
constexpr char kTestDue[] = "progress/test_due";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool all_finite(const NamedTensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& named) {
    return torch::isfinite(named.second.detach()).all().template item<bool>();
  });
}

}  // namespace

Training::Training(const Job& job, Team& team, ElasticWorld& world, int nodes)
    : options_(job.options),
      workload_(job.workload),
      state_(job.state),
      course_(job.course),
      report_(job.report),
      record_(job.record),
      team_(team),
      world_(world),
      policy_(job.policy),
      nodes_(nodes),
      seconds_per_sample_(job.seconds_per_sample),
      context_{options_, workload_.dataset(), job.device, state_, clock_} {
  if (team.rank() == 0 && !options_.checkpoint_dir.empty())
    store_.emplace(options_.checkpoint_dir, checkpoint::Store::Options{options_.keep});
}

/// On rank 0; `from` says which file it was, `test_due` whether a test of its step is to be made
/// yet.
void Training::read_checkpoint(std::string& from, bool& test_due) {
  if (store_) {
    try {
      store_->prepare();
    } catch (const checkpoint::Error& e) {
      throw UsageError("--checkpoint-dir " + std::string(e.what()));
    }
  }
  if (team_.rank() != 0 || options_.resume == "none") return;
  std::optional<checkpoint::Contents> contents;
  if (options_.resume != "auto") {
    from = options_.resume;
    try {
      contents = checkpoint::read(from);
    } catch (const checkpoint::Error& e) {
      throw UsageError("--resume " + std::string(e.what()));
    }
  } else if (store_) {
    contents = store_->newest_good([&](const checkpoint::Error& e) {
      report_.warning("passed over: " + std::string(e.what()));
    });
    if (contents) from = store_->file_of(contents->info.step);
  }
  if (!contents) return;
  try {
    restore(state_, options_, contents->state);
  } catch (const UsageError& e) {
    throw UsageError(from + ": " + e.what());
  }
  test_due = contents->state.get_or<std::int64_t>(kTestDue, 0) != 0;
}

void Training::resume() {
  // Rank 0 reads; the others get the state as a rank that joins would.
  std::string from;
  bool test_due = false;
  together(team_, [&] { read_checkpoint(from, test_due); });
  if (options_.batch_rule != "fixed" && state_.adaptation.rank_batch == 0)
    state_.adaptation.rank_batch = default_rank_batch(options_, team_.size());
  from = team_.broadcast(from);
  test_due = team_.sum(std::vector{test_due ? 1.0 : 0.0}).front() > 0;
  replicate(state_, team_);
  {
    const ElasticWorld::Update update(world_);
    if (!test_due) course_.settled_step = state_.step;
    if (!test_due && !from.empty()) course_.saved_step = state_.step;
    state_.complete = true;
  }
  if (!from.empty()) report_.resume(state_, from);
}

bool Training::reached_limit() const {
  return course_.ending || limit_reached(options_, state_.standing(options_));
}

/// What only rank 0 can decide, since clocks differ.
unsigned Training::decide() const {
  unsigned control = kGoOn;
  if (options_.checkpoint_seconds > 0 &&
      seconds_since(course_.saved) >= options_.checkpoint_seconds)
    control |= kCheckpoint;
  if (options_.train_seconds > 0 && seconds_since(course_.started) >= options_.train_seconds)
    control |= kEnd;
  if (world_.change_wanted()) control |= kChange;
  return control;
}

bool Training::evaluation_due() const {
  if (options_.evaluate_steps > 0 && state_.step % options_.evaluate_steps == 0) return true;
  const Position& at = state_.sampler.position();
  return options_.evaluate_every > 0 && at.offset == 0 &&
         static_cast<std::int64_t>(at.pass) % options_.evaluate_every == 0;
}

bool Training::test_due() const {
  if (course_.settled_step == state_.step) return false;
  if (workload_.evaluates()) return evaluation_due();
  return state_.sampler.position().offset == 0 || reached_limit();
}

bool Training::checkpoint_due() const {
  if (options_.checkpoint_dir.empty()) return false;
  if (options_.checkpoint_steps > 0) return state_.step % options_.checkpoint_steps == 0;
  if (options_.checkpoint_seconds > 0) return (control_ & kCheckpoint) != 0;
  return state_.sampler.position().offset == 0;
}

void Training::evaluate_now() {
  if (course_.evaluated_step == state_.step) return;
  const TimelineSpan span("evaluation");
  const auto start = Clock::now();
  if (const std::optional<Sums> test = workload_.evaluate(team_))
    evaluated(*test, seconds_since(start));
}

void Training::evaluated(const Sums& test, double seconds) {
  {
    const ElasticWorld::Update update(world_);
    course_.test = test;
    course_.evaluation_seconds = seconds;
    course_.evaluated_step = state_.step;
  }
  tell_evaluation();
}

/// Rank 0 may die before it has reported what the others know: then its successor does.
void Training::tell_evaluation() {
  if (course_.told_step == course_.evaluated_step) return;
  report_.evaluation(state_, course_.test, course_.evaluation_seconds);
  if (team_.rank() == 0) course_.told_step = course_.evaluated_step;
}

/// To be called after a collective that rank 0 has begun after its reports.
void Training::reports_are_out() { course_.told_step = course_.evaluated_step; }

/// Saves unless this step is saved already. Training goes on when it fails: the older checkpoints
/// are still there. All ranks learn the outcome. What is no number is not saved: a run that resumed
/// from it could not go on, while an older checkpoint may be good. `test_due`: one
/// of this step has not been made; whoever resumes makes it.
bool Training::save(bool test_due) {
  if (course_.saved_step == state_.step) return true;
  const TimelineSpan span("checkpoint");
  double saved = 0;
  const bool finite = !store_ || all_finite(state_.parameters);
  if (store_ && finite) {
    const auto start = Clock::now();
    try {
      checkpoint::State contents = capture(state_, options_);
      if (test_due) contents.set(kTestDue, std::int64_t{1});
      const auto entry = store_->save(contents, state_.step);
      report_.checkpoint(state_, entry.file, seconds_since(start));
      saved = 1;
    } catch (const checkpoint::Error& e) {
      report_.warning(fmt::format("no checkpoint of step {}: {}", state_.step, e.what()));
    }
  }
  const auto outcome = team_.sum(std::vector{saved, finite ? 0.0 : 1.0});
  report_.pause_over();
  reports_are_out();
  if (outcome[1] > 0)
    throw SharedError(kFailure,
                      fmt::format("the parameters after step {} are no longer finite: try "
                                  "a smaller --lr, or --clip; no checkpoint was made",
                                  state_.step));
  const ElasticWorld::Update update(world_);
  course_.saved = Clock::now();
  if (outcome[0] == 0) return false;
  course_.saved_step = state_.step;
  return true;
}

/// The closing line, once. Nobody leaves before all know that it is out.
void Training::close(const char* reason) {
  if (!course_.ended) report_.end(state_, course_.test, reason);
  course_.ended = course_.ended || team_.rank() == 0;
  team_.sum(std::vector{1.0});
  course_.ended = true;
}

Outcome Training::finish() {
  evaluate_now();
  if (!options_.checkpoint_dir.empty()) save(false);
  close("finished");
  return Outcome::kFinished;
}

Outcome Training::stop() {
  const bool saved = !options_.checkpoint_dir.empty() && save(test_due());
  close("stopped");
  return saved ? Outcome::kStopped : Outcome::kStoppedUnsaved;
}

bool Training::change_due() const { return (control_ & kChange) != 0 && !reached_limit(); }

bool Training::interrupted() const { return course_.stopping || change_due(); }

std::optional<Outcome> Training::before_step() {
  if (course_.stopping) return stop();
  if (change_due()) return Outcome::kChange;
  settle();
  if (reached_limit()) return finish();
  return std::nullopt;
}

void Training::begin_step() {
  const Choice choice = team_.rank() == 0 ? decisions_->next() : Choice{};
  stepper_->begin(decide(), choice, stop_signal() != 0);
  in_step_ = true;
}

void Training::end_step() {
  const StepResult result = stepper_->finish();
  in_step_ = false;
  decisions_->count(result);
  reports_are_out();
  if (!std::isfinite(result.sums.loss))
    throw SharedError(kFailure, fmt::format("the loss of step {} is {}: try a smaller --lr, or "
                                            "--clip; no checkpoint was made of it",
                                            state_.step, result.sums.loss));
  report_.step(state_, result);
  if (result.fits > 0) report_.short_of_memory(state_, result);
  look_for_stragglers();
  control_ = result.control;
  course_.stopping = course_.stopping || result.stop;
  course_.ending = course_.ending || (result.control & kEnd) != 0;
  tell_progress(result);
}

/// Of all ranks, as earlier worlds have found them; collective.
std::vector<double> Training::known_speeds() {
  if (!times_ranks(options_)) return {};
  hosts_ = team_.gather(host_name());
  std::vector<double> all(static_cast<std::size_t>(team_.size()), 0);
  all[static_cast<std::size_t>(team_.rank())] = seconds_per_sample_;
  return team_.sum(all);
}

void Training::look_for_stragglers() {
  if (stepper_->shares() == nullptr) return;
  const Shares& shares = *stepper_->shares();
  const double own = shares.seconds()[static_cast<std::size_t>(team_.rank())];
  if (own > 0) seconds_per_sample_ = own;
  const int found = shares.straggler();
  if (found < 0 || found == straggler_) return;
  straggler_ = found;
  report_.straggler(state_, found, hosts_[static_cast<std::size_t>(found)], shares.slowness(found));
  if (options_.drop_stragglers && team_.rank() == 0) world_.ask_to_leave(found);
}

void Training::settle() {
  if (course_.settled_step == state_.step) return;
  if (evaluation_due()) evaluate_now();
  if (checkpoint_due()) save(false);
  course_.settled_step = state_.step;
}

void Training::tell_progress(const StepResult& result) {
  if (seconds_since(told_) < 1) return;
  told_ = Clock::now();
  const auto bounds = team_.rank() == 0 ? world_.rank_bounds() : std::nullopt;
  world_.report({state_.step, report_.world_speed(), report_.samples_left(state_),
                 static_cast<std::int64_t>(result.samples), result.rate,
                 bounds ? hints_.look(options_, state_.adaptation,
                                      {nodes_, team_.size(), bounds->first, bounds->second})
                        : std::nullopt});
}

void Training::begin() {
  decisions_.emplace(context_, policy_, report_, team_, world_, nodes_);
  const Choice choice = decisions_->begin();
  stepper_.emplace(context_, team_, world_, course_, record_, choice, nodes_, known_speeds());
  report_.world_begins();
  tell_evaluation();
}

}  // namespace bellows::trainer
