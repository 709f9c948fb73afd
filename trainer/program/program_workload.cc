// SPDX-License-Identifier: Apache-2.0
#include "trainer/program/program_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "trainer/errors.h"
#include "trainer/hash.h"

namespace bellows::trainer {

void ProgramDataset::read(Split /*split*/, std::span<const std::uint64_t> /*ids*/,
                          const SampleBuffers& /*out*/) const {
  throw std::logic_error("the samples of a program are read by itself");
}

ProgramWorkload::ProgramWorkload(Options& options, std::uint64_t samples, torch::nn::Module& model,
                                 torch::optim::Optimizer& optimizer, Body body)
    : options_(options),
      dataset_(samples),
      model_(model),
      optimizer_(optimizer),
      body_(std::move(body)) {
  for (const auto& item : model.named_parameters())
    (item.value().requires_grad() ? parameters_ : buffers_).emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) buffers_.emplace_back(item.key(), item.value());
  if (parameters_.empty()) throw UsageError("the model has no parameter that requires a gradient");
  options_.optimizer = kind_of(optimizer);
  check_optimizer(options_);
  options_.lr = TorchOptimizer(parameters_, optimizer).base_rate();
}

std::unique_ptr<TrainingState> ProgramWorkload::load(const torch::Device& /*device*/) {
  auto state = std::make_unique<TrainingState>(
      options_, parameters_, buffers_, std::make_unique<TorchOptimizer>(parameters_, optimizer_),
      dataset_.size(Split::kTrain));
  state_ = state.get();
  return state;
}

void ProgramWorkload::warm_up() {
  rehearsing_ = true;
  stage_ = Stage::kSamples;
  place_ = "a process that warms up";
  try {
    body_();
  } catch (const Leave&) {
    // It has come to its first step.
  }
  rehearsing_ = false;
  reset_gradients(*state_);
}

Outcome ProgramWorkload::train(Training& training) {
  training_ = &training;
  stage_ = Stage::kSamples;
  epoch_known_ = epochs_used_ = loader_ended_ = false;
  outcome_.reset();
  error_ = nullptr;
  // A test may come before the first step.
  state_->begin_step();
  try {
    body_();
  } catch (const Leave&) {
    // Of the world or of the run; whatever else comes out of the body is the program's.
  } catch (...) {
    place_ = here();
    training_ = nullptr;
    throw;
  }
  training_ = nullptr;
  if (error_) std::rethrow_exception(error_);
  if (outcome_) return *outcome_;
  place_ = fmt::format("rank {} of {}, at the end of the body", training.team().rank(),
                       training.team().size());
  if (stage_ != Stage::kSamples || training.in_step())
    throw std::logic_error("the training ends in the middle of a step: step() was not called");
  call_roll(training.team(), Call::kEnd, 0, steps())->wait();
  return training.finish();
}

/// Errors that all ranks will hear of end the body, and are dealt with behind it. A body that has
/// not let Leave pass meets it again.
template <typename F>
auto ProgramWorkload::guarded(F f) -> decltype(f()) {
  if (training_ == nullptr && !rehearsing_)
    throw std::logic_error("to be called from within the body of run() only");
  if (outcome_ || error_) throw Leave{};
  try {
    return f();
  } catch (const MpiError&) {
    error_ = std::current_exception();
  } catch (const SharedError&) {
    error_ = std::current_exception();
  }
  place_ = here();
  throw Leave{};
}

void ProgramWorkload::leave(Outcome outcome) {
  outcome_ = outcome;
  throw Leave{};
}

void ProgramWorkload::expect(Stage stage, const char* call) {
  if (stage_ == stage) return;
  constexpr const char* kDue[] = {"the loader's next batch", "backward() of the last batch",
                                  "step() after backward()"};
  throw std::logic_error(
      fmt::format("{} was called where {} is due", call, kDue[static_cast<std::size_t>(stage_)]));
}

/// Whether the last step has ended a pass over the data, or the run within one, and what follows it
/// is still to be done.
bool ProgramWorkload::unsettled() const {
  const Position& at = state_->sampler.position();
  if (training_->course().settled_step == state_->step) return false;
  return at.offset == 0 ? at.pass > 0 : training_->reached_limit();
}

/// The pass over the data that is not over, or not settled.
std::uint64_t ProgramWorkload::present_epoch() const {
  const Position& at = state_->sampler.position();
  return at.pass - (at.offset == 0 && unsettled() ? 1 : 0);
}

/// A signal has come, or the world changes: not before it is known that all ranks know of it.
void ProgramWorkload::leave_between_steps(Call call) {
  call_roll(training_->team(), call, 0, steps())->wait();
  leave(*training_->before_step());
}

void ProgramWorkload::settle() {
  training_->pause_over();
  training_->settle();
  epoch_known_ = false;
  loader_ended_ = false;
}

std::size_t ProgramWorkload::next_epoch() {
  return guarded([&]() -> std::size_t {
    if (rehearsing_) return 1;
    expect(Stage::kSamples, "the next epoch");
    if (training_->interrupted()) leave_between_steps(Call::kEpoch);
    call_roll(training_->team(), Call::kEpoch, 0, steps());
    const bool first = !std::exchange(epochs_used_, true);
    if (!first && !loader_ended_)
      throw std::logic_error("an epoch was left before its end; to stop earlier use --steps");
    if (!first) settle();
    epoch_ = present_epoch();
    epoch_known_ = true;
    if (!unsettled() && training_->reached_limit()) return 0;
    return epoch_ + 1;
  });
}

std::vector<std::size_t> ProgramWorkload::samples_of(const Passes& passes) {
  const auto samples = passes.samples();
  samples_ = samples.size();
  stage_ = Stage::kBackward;
  // What the program draws in this pass depends on the samples, not on the process.
  torch::manual_seed(mix64(mix64(options_.seed, state_->sampler.position().pass), samples.front()));
  return {samples.begin(), samples.end()};
}

std::vector<std::size_t> ProgramWorkload::next_samples() {
  return guarded([&]() -> std::vector<std::size_t> {
    expect(Stage::kSamples, "the loader's next batch");
    if (rehearsing_) {
      std::vector<std::size_t> some(std::min<std::uint64_t>(
          {static_cast<std::uint64_t>(options_.batch), kWarmUp, dataset_.size(Split::kTrain)}));
      std::iota(some.begin(), some.end(), 0);
      stage_ = Stage::kBackward;
      return some;
    }
    if (training_->in_step()) return samples_of(training_->passes());
    return first_samples();
  });
}

/// Of a step that begins, if there is another one in this epoch.
std::vector<std::size_t> ProgramWorkload::first_samples() {
  if (training_->interrupted()) leave_between_steps(Call::kBatch);
  if (training_->save_due()) call_roll(training_->team(), Call::kBatch, 0, steps());
  // A program without epochs(): a loader that begins anew ends what came before.
  if (!epochs_used_ && std::exchange(loader_ended_, false)) settle();
  if (!epoch_known_) {
    epoch_ = present_epoch();
    epoch_known_ = true;
  }
  if (state_->sampler.position().pass != epoch_ || training_->reached_limit()) {
    loader_ended_ = true;
    ended_ = std::chrono::steady_clock::now();
    return {};
  }
  if (const auto outcome = training_->before_step()) leave(*outcome);
  training_->begin_step();
  return samples_of(training_->passes());
}

void ProgramWorkload::samples_read() {
  if (training_ != nullptr && training_->in_step()) training_->clock().lap(StepClock::kData);
}

void ProgramWorkload::backward(const torch::Tensor& loss) {
  guarded([&] {
    expect(Stage::kBackward, "backward()");
    if (loss.numel() != 1)
      throw std::invalid_argument("backward() needs the mean loss, a single number");
    stage_ = Stage::kStep;
    if (rehearsing_) return loss.backward();
    Passes& passes = training_->passes();
    if (passes.last()) call_roll(training_->team(), Call::kBackward, 0, steps());
    const auto samples = static_cast<double>(samples_);
    passes.backward(loss * samples, {loss.item<double>() * samples, 0, samples});
  });
}

/// What is trained is settled at the start: another gradient would be nobody's to sum.
void ProgramWorkload::check_parameters() const {
  std::size_t trained = 0;
  for (const torch::Tensor& parameter : model_.parameters())
    if (parameter.requires_grad()) ++trained;
  if (trained != parameters_.size())
    throw std::logic_error(fmt::format(
        "{} parameters require gradients now, and {} did at run(): they must stay the same",
        trained, parameters_.size()));
}

bool ProgramWorkload::step() {
  return guarded([&] {
    expect(Stage::kStep, "step()");
    stage_ = Stage::kSamples;
    if (rehearsing_) throw Leave{};
    if (!training_->passes().over()) return false;
    check_parameters();
    training_->end_step();
    return true;
  });
}

std::vector<double> ProgramWorkload::sum(const std::vector<double>& values) {
  return guarded([&] {
    if (rehearsing_) throw Leave{};
    call_roll(training_->team(), Call::kSum, values.size(), steps());
    return training_->team().sum(values);
  });
}

Sums ProgramWorkload::evaluated(const Sums& own) {
  return guarded([&] {
    if (rehearsing_) throw Leave{};
    call_roll(training_->team(), Call::kEvaluated, 0, steps());
    const auto all = training_->team().sum(std::vector{own.loss, own.correct, own.targets});
    const Sums sums{all[0], all[1], all[2]};
    if (!(sums.targets > 0))
      throw SharedError(
          kFailure,
          fmt::format("after step {}: evaluated() was called, but no rank has looked at a sample",
                      steps()));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - ended_;
    training_->evaluated(sums, loader_ended_ ? took.count() : 0);
    return sums;
  });
}

int ProgramWorkload::rank() const { return training_ != nullptr ? training_->team().rank() : -1; }
int ProgramWorkload::size() const { return training_ != nullptr ? training_->team().size() : 0; }
std::int64_t ProgramWorkload::steps() const { return state_ != nullptr ? state_->step : 0; }

std::string ProgramWorkload::here() const {
  return fmt::format("rank {} of {}, after step {}", rank(), size(), steps());
}

}  // namespace bellows::trainer
