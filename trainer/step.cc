// SPDX-License-Identifier: Apache-2.0
#include "trainer/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "mpi_elastic/timeline.h"

namespace bellows::trainer {

namespace {

/// What is summed over the ranks beside the counters; some are zero on all ranks but one.
enum Word : std::size_t {
  kStop,
  kControl,
  kBatch,
  kMicroBatch,
  kFactor,
  kAccumulate,
  kOptimize,
  kWords
};

}  // namespace

Stepper::Stepper(const PassContext& context, Team& team, ElasticWorld& world, Course& course,
                 SampleRecord& record, const Choice& choice, int nodes, std::vector<double> seconds)
    : context_(context),
      state_(context.state),
      team_(team),
      world_(world),
      course_(course),
      record_(record),
      plan_(plan_for(choice)),
      first_factor_(choice.lr_factor),
      nodes_(nodes) {
  const Options& options = context.options;
  if (options.logical_ranks > 0) {
    logical_.emplace(context, team);
    return;
  }
  if (times_ranks(options)) {
    seconds.resize(static_cast<std::size_t>(team.size()), 0);
    shares_.emplace(options.shares == "speed", std::move(seconds));
  }
  reducer_.emplace(state_.parameters, team.backend(),
                   static_cast<std::int64_t>(options.bucket_mb * (1 << 20)));
}

BatchPlan Stepper::plan_for(const Choice& choice) const {
  const Options& options = context_.options;
  // How the part of a logical rank is worked through does not depend on the ranks either.
  const auto ranks =
      options.logical_ranks > 0 ? static_cast<int>(options.logical_ranks) : team_.size();
  return make_plan(options, choice.batch, choice.micro_batch, ranks);
}

Range Stepper::share_of(int rank, Range batch) const {
  return shares_ ? weighted_share(batch, rank, shares_->weights())
                 : share(batch, rank, team_.size());
}

/// With unequal shares all ranks make the same number of passes where bounds allow it.
std::int64_t Stepper::micro_batch_for(Range own) const {
  const Options& options = context_.options;
  if (!shares_ || options.micro_batch > 0 || own.size() == 0) return plan_.micro_batch;
  const auto samples = static_cast<std::int64_t>(own.size());
  const auto over = [](std::int64_t count, std::int64_t parts) {
    return (count + parts - 1) / parts;
  };
  std::int64_t passes = plan_.accumulation + 1;
  if (options.micro_batch_most > 0)
    passes = std::max(passes, over(samples, options.micro_batch_most));
  return over(samples, passes);
}

/// Of all ranks together.
double Stepper::count_all_passes(Range batch) const {
  if (!shares_) {
    const int parts =
        logical_ ? static_cast<int>(logical_parts(context_.options, batch)) : team_.size();
    return static_cast<double>(
        count_passes(static_cast<std::int64_t>(batch.size()), plan_.micro_batch, parts));
  }
  double passes = 0;
  for (int rank = 0; rank < team_.size(); ++rank) {
    const Range own = share_of(rank, batch);
    passes += std::ceil(static_cast<double>(own.size()) /
                        static_cast<double>(std::max<std::int64_t>(1, micro_batch_for(own))));
  }
  return passes;
}

/// For --record-samples: what this rank looks at, part by part.
void Stepper::note_samples(Range batch) {
  if (!record_.wanted()) return;
  Range own = share_of(team_.rank(), batch);
  if (logical_) {
    const std::uint64_t parts = logical_parts(context_.options, batch);
    const Range mine = share({0, parts}, team_.rank(), team_.size());
    const auto begin_of = [&](std::uint64_t part) {
      return part == parts ? batch.end
                           : share(batch, static_cast<int>(part), static_cast<int>(parts)).begin;
    };
    own = {begin_of(mine.begin), begin_of(mine.end)};
  }
  record_.begin({world_.epoch(), state_.step + 1, state_.sampler.position().pass, batch,
                 state_.sampler.samples(own)});
}

Sums Stepper::reduce(Range batch, std::vector<double>& words, double& squares) {
  state_.begin_step();
  reset_gradients(state_);
  const Range own = share_of(team_.rank(), batch);
  // A rank without samples takes part with zero gradients: those of any sample, weighted by zero.
  const bool idle = own.size() == 0;
  const auto targets =
      static_cast<double>(batch.size()) * static_cast<double>(context_.dataset.shape().targets());
  std::optional<Pending> counters;
  torch::Tensor all;
  std::optional<Pending> norms;
  run_passes(context_, state_.sampler.samples(idle ? Range{batch.begin, batch.begin + 1} : own),
             micro_batch_for(own), idle ? 0 : 1 / targets, [&](const Sums& sums) {
               const Sums counted = idle ? Sums{} : sums;
               words.insert(words.end(), {counted.loss, counted.correct, counted.targets});
               all = torch::tensor(words, torch::kFloat64);
               counters.emplace(team_.sum(all));
               reducer_->prepare([&] {
                 if (state_.norms && state_.norms->active())
                   norms.emplace(team_.sum(torch::tensor({state_.norms->sum()}, torch::kFloat64)));
               });
             });
  context_.clock.lap(StepClock::kBackward, reducer_->all_given());
  counters->wait();
  context_.clock.lap(StepClock::kCommunication);
  if (norms) squares = norms->wait().item<double>();
  const auto* word = all.const_data_ptr<double>();
  const std::size_t extra = words.size() - 3;
  words.assign(word, word + extra);
  return {word[extra], word[extra + 1], word[extra + 2]};
}

bool Stepper::measures_after(std::int64_t steps) const {
  return state_.norms && steps % context_.options.noise_interval == 0;
}

std::optional<MicroGradients> Stepper::measure(Range batch, double squares) {
  own_ = {};
  const Optimizer& optimizer = *state_.optimizer;
  const bool now = measures_after(state_.step);
  const bool next = measures_after(state_.step + 1);
  if ((!now && !next) || !optimizer.gradients_compare()) return std::nullopt;
  const auto samples = static_cast<double>(batch.size());
  const auto base = static_cast<double>(context_.options.batch);
  const double passes = count_all_passes(batch);
  const bool alone = passes <= 1 && !logical_ && team_.size() == 1;
  std::vector<torch::Tensor> gradients;
  for (const auto& [name, parameter] : state_.parameters) gradients.push_back(parameter.grad());
  if (alone && next) {
    for (const torch::Tensor& gradient : gradients) own_.gradients.push_back(gradient.clone());
    own_.batch = samples;
  }
  const PreviousGradient& before = state_.previous;
  if (!now || (alone && before.batch == 0)) return std::nullopt;
  const double square = inner_product(gradients, gradients, optimizer);
  MicroGradients measured{passes, squares, square, samples / base};
  if (alone)
    measured = differenced(inner_product(before.gradients, before.gradients, optimizer), square,
                           inner_product(before.gradients, gradients, optimizer), before.batch,
                           samples, base);
  measured.interval = static_cast<double>(context_.options.noise_interval);
  return measured;
}

// What a step costs is known once the first steps by a plan are made (memory, kernels).
void Stepper::take_times(Range batch, Clock::time_point start) {
  constexpr std::int64_t kSettling = 2;
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  timed_ = ++settled_ > kSettling && !logical_ &&
           batch.size() == static_cast<std::uint64_t>(plan_.batch) && plan_.batch >= team_.size();
  seconds_per_sample_ = 0;
  if (!timed_) return;
  const std::uint64_t own = share_of(team_.rank(), batch).size();
  const double given = seconds(reducer_->all_given() - start);
  if (own > 0) seconds_per_sample_ = given / static_cast<double>(own);
  const auto passes = static_cast<double>(plan_.accumulation + 1);
  const double compute = given / passes;
  times_ = {nodes_, team_.size(), static_cast<double>(plan_.micro_batch), compute,
            seconds(Clock::now() - start) - compute * (passes - 1)};
}

void Stepper::apply(const Choice& choice) {
  if (choice.batch == 0) return;
  const BatchPlan plan = plan_for(choice);
  if (plan != plan_) settled_ = 0;
  plan_ = plan;
}

void Stepper::update(Range batch, const AdaptedStep& adapted, StepResult& result) {
  const ElasticWorld::Update update(world_);
  state_.optimizer->step(result.rate);
  state_.adaptation = adapted.after;
  state_.previous = std::move(own_);
  ++state_.step;
  state_.samples += result.samples = batch.size();
  state_.pass_sums.add(result.sums);
  result.pass_ended = state_.sampler.advance(batch);
  if (result.pass_ended) state_.pass_sums = {};
  state_.update_buffers();
  course_.committed_epoch = world_.epoch();
}

StepResult Stepper::step(unsigned control, const Choice& choice, bool stop_signal) {
  const Options& options = context_.options;
  const Clock::time_point start = Clock::now();
  const Range batch = state_.sampler.next(static_cast<std::uint64_t>(plan_.batch));
  note_samples(batch);
  context_.clock.begin();
  const std::size_t ranks = shares_ ? static_cast<std::size_t>(team_.size()) : 0;
  std::vector<double> words(kWords + ranks, 0);
  if (shares_) words[kWords + static_cast<std::size_t>(team_.rank())] = seconds_per_sample_;
  words[kStop] = stop_signal ? 1 : 0;
  if (team_.rank() == 0) {
    words[kControl] = static_cast<double>(control);
    words[kBatch] = static_cast<double>(choice.batch);
    words[kMicroBatch] = static_cast<double>(choice.micro_batch);
    words[kFactor] = choice.lr_factor;
  }
  words[kAccumulate] = times_.accumulate_seconds / team_.size();
  words[kOptimize] = times_.optimize_seconds / team_.size();
  if (state_.norms) state_.norms->set_active(measures_after(state_.step));
  StepResult result;
  double squares = 0;
  result.sums = logical_ ? logical_->step(batch, plan_.micro_batch, words, squares)
                         : reduce(batch, words, squares);
  const std::optional<MicroGradients> measured = measure(batch, squares);
  result.stop = words[kStop] > 0;
  result.control = static_cast<unsigned>(words[kControl]);
  if (options.clip > 0) result.gradient_norm = clip_gradients(state_.parameters, options.clip);
  Adaptation before = state_.adaptation;
  if (first_factor_ > 0) before.policy_factor = first_factor_;
  AdaptedStep adapted = adapt(options, before, plan_, state_.sampler.position(),
                              state_.sampler.behind(batch), state_.sampler.size(), measured);
  if (timed_) {
    StepTimes mean = times_;
    mean.accumulate_seconds = words[kAccumulate];
    mean.optimize_seconds = words[kOptimize];
    adapted.after.profile.add(mean);
  }
  if (words[kFactor] > 0) adapted.after.policy_factor = words[kFactor];
  result.rate = adapted.rate;
  result.scale = adapted.scale;
  result.gain = adapted.gain;
  update(batch, adapted, result);
  first_factor_ = 0;
  const bool was_timed = timed_;
  take_times(batch, start);
  // The times are those of the step before.
  if (shares_ && was_timed &&
      shares_->add(std::span(words).subspan(kWords), static_cast<std::uint64_t>(plan_.batch)))
    seconds_per_sample_ = 0;
  apply(
      {static_cast<std::int64_t>(words[kBatch]), static_cast<std::int64_t>(words[kMicroBatch]), 0});
  record_.commit(state_.step, course_.committed_epoch);
  context_.clock.lap(StepClock::kUpdate);
  result.parts = context_.clock.seconds();
  if (Timeline::on())
    Timeline::add(fmt::format("step {}", state_.step), context_.clock.begun(),
                  StepClock::Clock::now());
  return result;
}

}  // namespace bellows::trainer
