// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "mpi_elastic/timeline.h"
#include "trainer/step/fitting.h"

namespace bellows::trainer {

namespace {

/// What is summed over the ranks beside the counters; some are zero on all ranks but one.
enum Word : std::size_t {
  kStop,
  kControl,
  kBatch,
  kMicroBatch,
  kFactor,
  kFits,
  kAccumulate,
  kOptimize,
  kUpdate,
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
  if (options.batch_norm == "sync" && state_.model && team.size() > 1)
    state_.model->batch_scope().team = team.backend();
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

Stepper::~Stepper() {
  if (state_.model) state_.model->batch_scope() = {};
}

BatchPlan Stepper::plan_for(const Choice& choice) const {
  const Options& options = context_.options;
  // How the part of a logical rank is worked through does not depend on the ranks either.
  const auto ranks =
      options.logical_ranks > 0 ? static_cast<int>(options.logical_ranks) : team_.size();
  return make_plan(options, choice.batch, choice.micro_batch, ranks, state_.adaptation.fits);
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
  for (const std::int64_t most : {options.micro_batch_most, state_.adaptation.fits})
    if (most > 0) passes = std::max(passes, over(samples, most));
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

/// How this rank works through its share.
Cut Stepper::cut_for(Range batch) const {
  Cut cut{micro_batch_for(share_of(team_.rank(), batch))};
  if (own_fits_ > 0) cut.micro_batch = std::min(cut.micro_batch, own_fits_);
  if (!state_.model || !state_.model->batch_scope().team) return cut;
  for (int rank = 0; rank < team_.size(); ++rank) {
    const Range own = share_of(rank, batch);
    const auto sizes = cut_sizes(own.size(), {micro_batch_for(own)});
    cut.passes = std::max(cut.passes, static_cast<std::int64_t>(sizes.size()));
  }
  return cut;
}

/// What this rank has learnt of its memory and the others do not know, if it is its turn to tell:
/// what the ranks say is added up, so one of them speaks at a time.
std::int64_t Stepper::unannounced_limit() const {
  const std::int64_t known = state_.adaptation.fits;
  const bool news = own_fits_ > 0 && (known == 0 || own_fits_ < known);
  return news && state_.step % team_.size() == team_.rank() ? own_fits_ : 0;
}

void Stepper::learn_limit(std::int64_t fits, Adaptation& after, StepResult& result) {
  if (fits == 0) return;
  after.fits = result.fits = fits;
  result.short_of_memory = static_cast<int>(state_.step % team_.size());
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

void Stepper::begin_passes() {
  state_.begin_step();
  reset_gradients(state_);
  const Range batch = in_hand_->batch;
  const Range own = share_of(team_.rank(), batch);
  const auto targets =
      static_cast<double>(batch.size()) * static_cast<double>(context_.dataset.shape().targets());
  const double weight = static_cast<double>(own.size()) / static_cast<double>(batch.size());
  if (own_fits_ > 0 && state_.norms) state_.norms->spoil();
  in_hand_->passes.emplace(
      state_, context_.clock, state_.sampler.samples(own), cut_for(batch), 1 / targets,
      [this, weight](const Sums& sums) {
        in_hand_->buffers.emplace(state_, team_, weight);
        std::vector<double>& words = in_hand_->words;
        words.insert(words.end(), {sums.loss, sums.correct, sums.targets});
        in_hand_->counters.emplace(team_.sum(torch::tensor(words, torch::kFloat64)));
        reducer_->prepare([this] {
          if (state_.norms && state_.norms->active())
            in_hand_->norms.emplace(
                team_.sum(torch::tensor(state_.norms->sums(), torch::kFloat64)));
        });
      });
}

void Stepper::run_passes() {
  if (!in_hand_->passes) return;  // of logical ranks: in finish()
  const std::int64_t wanted = in_hand_->passes->cut().micro_batch;
  const std::int64_t fitted = run_fitting(context_, team_.rank(), *in_hand_->passes, &*reducer_);
  if (fitted < wanted) own_fits_ = fitted;
}

void Stepper::reduce() {
  InHand& now = *in_hand_;
  if (!reducer_->complete()) {
    for (const auto& [name, parameter] : state_.parameters)
      if (!parameter.grad().defined())
        throw std::logic_error(fmt::format(
            "no gradient for {}: each parameter has to take part in each loss; one that does not "
            "shall require no gradient",
            name));
    throw std::logic_error("the gradients of a pass are not complete");
  }
  context_.clock.lap(StepClock::kBackward, reducer_->all_given());
  const torch::Tensor all = now.counters->wait();
  context_.clock.lap(StepClock::kAgreement, now.counters->ended());
  now.buffers->finish();
  context_.clock.lap(StepClock::kCommunication);
  if (now.norms) {
    const torch::Tensor& sums = now.norms->wait();
    now.squares.assign(sums.const_data_ptr<double>(), sums.const_data_ptr<double>() + sums.numel());
  }
  const auto* word = all.const_data_ptr<double>();
  const std::size_t extra = now.words.size() - 3;
  now.words.assign(word, word + extra);
  now.sums = {word[extra], word[extra + 1], word[extra + 2]};
}

// Three words for each rank; all zero but one's own.
void Stepper::add_usage(std::vector<double>& words) const {
  if (context_.options.metrics.empty()) return;
  const torch::Device& device = context_.device;
  const Usage own = usage_now(device.is_cpu() ? -1 : device.index());
  const std::size_t at = words.size() + 3 * static_cast<std::size_t>(team_.rank());
  words.resize(words.size() + 3 * static_cast<std::size_t>(team_.size()), 0);
  words[at] = own.peak_memory;
  words[at + 1] = own.gpu_memory;
  words[at + 2] = own.gpu_utilisation;
}

std::vector<Usage> Stepper::read_usage(std::vector<double>& words) const {
  std::vector<Usage> all;
  if (context_.options.metrics.empty()) return all;
  const std::size_t begin = words.size() - 3 * static_cast<std::size_t>(team_.size());
  for (std::size_t at = begin; at < words.size(); at += 3)
    all.push_back({words[at], words[at + 1], words[at + 2]});
  words.resize(begin);
  return all;
}

bool Stepper::measures_after(std::int64_t steps) const {
  return state_.norms && steps % context_.options.noise_interval == 0;
}

std::vector<MicroGradients> Stepper::measure(Range batch, const std::vector<double>& squares) {
  own_ = {};
  const Optimizer& optimizer = *state_.optimizer;
  const bool now = measures_after(state_.step);
  const bool next = measures_after(state_.step + 1);
  if ((!now && !next) || !optimizer.gradients_compare()) return {};
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
  if (!now || (alone && before.batch == 0)) return {};
  const std::vector<double> square = inner_products(gradients, gradients, optimizer);
  std::vector<double> earlier;
  std::vector<double> both;
  if (alone) {
    earlier = inner_products(before.gradients, before.gradients, optimizer);
    both = inner_products(before.gradients, gradients, optimizer);
  }
  std::vector<MicroGradients> measured;
  for (std::size_t group = 0; group < square.size(); ++group) {
    measured.push_back(
        alone ? differenced(earlier[group], square[group], both[group], before.batch, samples, base)
              : MicroGradients{passes, squares[group], square[group], samples / base});
    measured.back().interval = static_cast<double>(context_.options.noise_interval);
  }
  return measured;
}

// What a step costs is known once the first steps by a plan are made (memory, kernels).
void Stepper::take_times(const InHand& step) {
  const Range batch = step.batch;
  constexpr std::int64_t kSettling = 2;
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  timed_ = ++settled_ > kSettling && !logical_ &&
           batch.size() == static_cast<std::uint64_t>(plan_.batch) && plan_.batch >= team_.size();
  seconds_per_sample_ = 0;
  if (!timed_) return;
  const std::uint64_t own = share_of(team_.rank(), batch).size();
  const double given = seconds(reducer_->all_given() - step.start);
  if (own > 0) seconds_per_sample_ = given / static_cast<double>(own);
  const auto passes = static_cast<double>(plan_.accumulation + 1);
  const double compute = given / passes;
  times_ = {nodes_,
            team_.size(),
            static_cast<double>(plan_.micro_batch),
            compute,
            seconds(step.reduced - step.start) - compute * (passes - 1),
            seconds(Clock::now() - step.reduced)};
}

void Stepper::apply(const Choice& choice) {
  if (choice.batch == 0) return;
  const BatchPlan plan = plan_for(choice);
  if (plan != plan_) settled_ = 0;
  plan_ = plan;
}

void Stepper::update(Range batch, const AdaptedStep& adapted, StepResult& result) {
  const ElasticWorld::Update update(world_);
  state_.optimizer->step(adapted.rates);
  state_.average.update(state_.optimizer->updates(), result.scale);
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

std::vector<double> Stepper::words_of(unsigned control, const Choice& choice,
                                      bool stop_signal) const {
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
  words[kFits] = static_cast<double>(unannounced_limit());
  words[kAccumulate] = times_.accumulate_seconds / team_.size();
  words[kOptimize] = times_.optimize_seconds / team_.size();
  words[kUpdate] = times_.update_seconds / team_.size();
  add_usage(words);
  return words;
}

StepResult Stepper::step(unsigned control, const Choice& choice, bool stop_signal) {
  begin(control, choice, stop_signal);
  run_passes();
  return finish();
}

void Stepper::begin(unsigned control, const Choice& choice, bool stop_signal) {
  in_hand_.emplace();
  in_hand_->start = Clock::now();
  in_hand_->batch = state_.sampler.next(static_cast<std::uint64_t>(plan_.batch));
  in_hand_->words = words_of(control, choice, stop_signal);
  note_samples(in_hand_->batch);
  context_.clock.begin();
  if (state_.norms) state_.norms->set_active(measures_after(state_.step));
  if (!logical_) begin_passes();
}

StepResult Stepper::finish() {
  const Options& options = context_.options;
  InHand& now = *in_hand_;
  if (logical_)
    now.sums = logical_->step(now.batch, plan_.micro_batch, now.words, now.squares);
  else
    reduce();
  now.reduced = Clock::now();
  const Range batch = now.batch;
  const std::vector<double>& words = now.words;
  const std::vector<MicroGradients> measured = measure(batch, now.squares);
  StepResult result;
  result.sums = now.sums;
  result.usage = read_usage(now.words);
  result.nodes = nodes_;
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
    mean.update_seconds = words[kUpdate];
    adapted.after.profile.add(mean);
  }
  if (words[kFactor] > 0) adapted.after.policy_factor = words[kFactor];
  learn_limit(static_cast<std::int64_t>(words[kFits]), adapted.after, result);
  result.rate = adapted.rate;
  result.scale = adapted.scale;
  result.gain = adapted.gain;
  update(batch, adapted, result);
  first_factor_ = 0;
  const bool was_timed = timed_;
  take_times(now);
  if (result.fits > 0) {
    if (own_fits_ >= result.fits) own_fits_ = 0;
    apply({plan_.batch, plan_.micro_batch, 0});
  }
  // The times are those of the step before.
  if (shares_ && was_timed &&
      shares_->add(std::span(words).subspan(kWords), static_cast<std::uint64_t>(plan_.batch)))
    seconds_per_sample_ = 0;
  apply(
      {static_cast<std::int64_t>(words[kBatch]), static_cast<std::int64_t>(words[kMicroBatch]), 0});
  record_.commit(state_.step, course_.committed_epoch);
  context_.clock.lap(StepClock::kUpdate);
  result.parts = context_.clock.seconds();
  in_hand_.reset();
  if (Timeline::on())
    Timeline::add(fmt::format("step {}", state_.step), context_.clock.begun(),
                  StepClock::Clock::now());
  return result;
}

}  // namespace bellows::trainer
