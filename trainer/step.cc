// SPDX-License-Identifier: Apache-2.0
#include "trainer/step.h"

#include <vector>

namespace bellows::trainer {

Stepper::Stepper(const PassContext& context, Team& team, ElasticWorld& world, Course& course,
                 SampleRecord& record)
    : context_(context),
      state_(context.state),
      team_(team),
      world_(world),
      course_(course),
      record_(record),
      plan_(plan_batch(context.options, context.state.adaptation.rank_batch, team.size())) {
  const Options& options = context.options;
  if (options.logical_ranks > 0) {
    // How a part is worked through does not depend on the ranks either.
    plan_ = with_passes(options, plan_.batch, static_cast<int>(options.logical_ranks));
    logical_.emplace(context, team);
    return;
  }
  reducer_.emplace(state_.parameters, team.backend(),
                   static_cast<std::int64_t>(options.bucket_mb * (1 << 20)));
}

/// For --record-samples: what this rank looks at, part by part.
void Stepper::note_samples(Range batch) {
  if (!record_.wanted()) return;
  Range own = share(batch, team_.rank(), team_.size());
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
  const Range own = share(batch, team_.rank(), team_.size());
  // A rank without samples takes part with zero gradients: those of any sample, weighted by zero.
  const bool idle = own.size() == 0;
  const auto targets =
      static_cast<double>(batch.size()) * static_cast<double>(context_.dataset.shape().targets());
  std::optional<Pending> counters;
  torch::Tensor all;
  std::optional<Pending> norms;
  run_passes(context_, state_.sampler.samples(idle ? Range{batch.begin, batch.begin + 1} : own),
             plan_.micro_batch, idle ? 0 : 1 / targets, [&](const Sums& sums) {
               const Sums counted = idle ? Sums{} : sums;
               words.insert(words.end(), {counted.loss, counted.correct, counted.targets});
               all = torch::tensor(words, torch::kFloat64);
               counters.emplace(team_.sum(all));
               reducer_->prepare([&] {
                 if (state_.norms)
                   norms.emplace(team_.sum(torch::tensor({state_.norms->sum()}, torch::kFloat64)));
               });
             });
  counters->wait();
  if (norms) squares = norms->wait().item<double>();
  const auto* word = all.const_data_ptr<double>();
  const std::size_t extra = words.size() - 3;
  words.assign(word, word + extra);
  return {word[extra], word[extra + 1], word[extra + 2]};
}

std::optional<MicroGradients> Stepper::measure(Range batch, double squares) {
  own_ = {};
  const Optimizer& optimizer = *state_.optimizer;
  if (!state_.norms || !optimizer.gradients_compare()) return std::nullopt;
  const auto samples = static_cast<double>(batch.size());
  const auto base = static_cast<double>(context_.options.batch);
  const int parts =
      logical_ ? static_cast<int>(logical_parts(context_.options, batch)) : team_.size();
  const auto passes = static_cast<double>(
      count_passes(static_cast<std::int64_t>(batch.size()), plan_.micro_batch, parts));
  std::vector<torch::Tensor> gradients;
  for (const auto& [name, parameter] : state_.parameters) gradients.push_back(parameter.grad());
  const double square = inner_product(gradients, gradients, optimizer);
  if (passes > 1 || logical_ || team_.size() > 1)
    return MicroGradients{passes, squares, square, samples / base};
  for (const torch::Tensor& gradient : gradients) own_.gradients.push_back(gradient.clone());
  own_.batch = samples;
  const PreviousGradient& before = state_.previous;
  if (before.batch == 0) return std::nullopt;
  return differenced(inner_product(before.gradients, before.gradients, optimizer), square,
                     inner_product(before.gradients, gradients, optimizer), before.batch, samples,
                     base);
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

StepResult Stepper::step(unsigned control, bool stop_signal) {
  const Options& options = context_.options;
  const Range batch = state_.sampler.next(static_cast<std::uint64_t>(plan_.batch));
  note_samples(batch);
  std::vector<double> words{stop_signal ? 1.0 : 0.0,
                            team_.rank() == 0 ? static_cast<double>(control) : 0};
  StepResult result;
  double squares = 0;
  result.sums = logical_ ? logical_->step(batch, plan_.micro_batch, words, squares)
                         : reduce(batch, words, squares);
  const std::optional<MicroGradients> measured = measure(batch, squares);
  result.stop = words[0] > 0;
  result.control = static_cast<unsigned>(words[1]);
  if (options.clip > 0) result.gradient_norm = clip_gradients(state_.parameters, options.clip);
  const AdaptedStep adapted = adapt(options, state_.adaptation, plan_, state_.sampler.position(),
                                    state_.sampler.behind(batch), state_.sampler.size(), measured);
  result.rate = adapted.rate;
  result.scale = adapted.scale;
  result.gain = adapted.gain;
  update(batch, adapted, result);
  record_.commit(state_.step, course_.committed_epoch);
  return result;
}

}  // namespace bellows::trainer
