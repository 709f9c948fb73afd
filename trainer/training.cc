// SPDX-License-Identifier: Apache-2.0
#include "trainer/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "trainer/errors.h"
#include "trainer/evaluation.h"
#include "trainer/signals.h"
#include "trainer/snapshot.h"

namespace bellows::trainer {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool all_finite(const NamedTensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& named) {
    return torch::isfinite(named.second.detach()).all().template item<bool>();
  });
}

}  // namespace

Training::Training(const Options& options, const Dataset& dataset, const torch::Device& device,
                   TrainingState& state, Team& team, Report& report)
    : options_(options),
      dataset_(dataset),
      device_(device),
      state_(state),
      team_(team),
      report_(report) {
  if (team.rank() == 0 && !options.checkpoint_dir.empty())
    store_.emplace(options.checkpoint_dir, checkpoint::Store::Options{options.keep});
}

void Training::resume() {
  // Rank 0 reads; the others get the state as a rank that joins would.
  std::string from;
  together(team_, [&] {
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
  });
  from = team_.broadcast(from);
  replicate(state_, team_);
  if (!from.empty()) {
    saved_step_ = state_.step;
    report_.resume(state_, from);
  }
}

bool Training::reached_limit() const {
  return (options_.steps > 0 && state_.step >= options_.steps) ||
         (options_.passes > 0 &&
          state_.sampler.position().pass >= static_cast<std::uint64_t>(options_.passes));
}

/// What only rank 0 can decide, since clocks differ.
unsigned Training::decide() const {
  unsigned control = kGoOn;
  if (options_.checkpoint_seconds > 0 && seconds_since(saved_) >= options_.checkpoint_seconds)
    control |= kCheckpoint;
  if (options_.train_seconds > 0 && seconds_since(started_) >= options_.train_seconds)
    control |= kEnd;
  return control;
}

bool Training::checkpoint_due(const StepResult& result) const {
  if (options_.checkpoint_dir.empty()) return false;
  if (options_.checkpoint_steps > 0) return state_.step % options_.checkpoint_steps == 0;
  if (options_.checkpoint_seconds > 0) return (result.control & kCheckpoint) != 0;
  return result.pass_ended;
}

void Training::evaluate_now() {
  const auto start = Clock::now();
  test_ = evaluate(state_, dataset_, device_, team_);
  evaluated_step_ = state_.step;
  report_.evaluation(state_, test_, seconds_since(start));
}

/// Saves unless this step is saved already. Training goes on when it fails: the older checkpoints
/// are still there. All ranks learn the outcome. What is no number is not saved: a run that resumed
/// from it could not go on, while an older checkpoint may be good.
bool Training::save() {
  if (saved_step_ == state_.step) return true;
  double saved = 0;
  const bool finite = !store_ || all_finite(state_.parameters);
  if (store_ && finite) {
    const auto start = Clock::now();
    try {
      const auto entry = store_->save(capture(state_, options_), state_.step);
      report_.checkpoint(state_, entry.file, seconds_since(start));
      saved = 1;
    } catch (const checkpoint::Error& e) {
      report_.warning(fmt::format("no checkpoint of step {}: {}", state_.step, e.what()));
    }
  }
  saved_ = Clock::now();
  const auto outcome = team_.sum(std::vector{saved, finite ? 0.0 : 1.0});
  if (outcome[1] > 0)
    throw SharedError(kFailure,
                      fmt::format("the parameters after step {} are no longer finite: try "
                                  "a smaller --lr, or --clip; no checkpoint was made",
                                  state_.step));
  if (outcome[0] == 0) return false;
  saved_step_ = state_.step;
  return true;
}

Outcome Training::finish() {
  if (evaluated_step_ != state_.step) evaluate_now();
  if (!options_.checkpoint_dir.empty()) save();
  report_.end(state_, test_, "finished");
  return Outcome::kFinished;
}

Outcome Training::stop() {
  const bool saved = !options_.checkpoint_dir.empty() && save();
  report_.end(state_, test_, "stopped");
  return saved ? Outcome::kStopped : Outcome::kStoppedUnsaved;
}

Outcome Training::run() {
  started_ = saved_ = Clock::now();
  Stepper stepper(options_, dataset_, device_, state_, team_);
  state_.model->train();
  while (!reached_limit()) {
    const StepResult result = stepper.step(decide(), stop_signal() != 0);
    if (!std::isfinite(result.sums.loss))
      throw SharedError(kFailure, fmt::format("the loss of step {} is {}: try a smaller --lr, or "
                                              "--clip; no checkpoint was made of it",
                                              state_.step, result.sums.loss));
    report_.step(state_, result);
    if (result.pass_ended) state_.pass_sums = {};
    if (result.stop) return stop();
    if (result.pass_ended) {
      const auto passes = static_cast<std::int64_t>(state_.sampler.position().pass);
      if (options_.evaluate_every > 0 && passes % options_.evaluate_every == 0) evaluate_now();
    }
    if (checkpoint_due(result)) save();
    if ((result.control & kEnd) != 0) break;
  }
  return finish();
}

}  // namespace bellows::trainer
