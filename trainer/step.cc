// SPDX-License-Identifier: Apache-2.0
#include "trainer/step.h"

#include <fmt/format.h>

#include <vector>

#include "mpi_elastic/timeline.h"
#include "trainer/schedule.h"

namespace bellows::trainer {

Stepper::Stepper(const PassContext& context, Team& team, ElasticWorld& world, Course& course,
                 SampleRecord& record)
    : context_(context),
      state_(context.state),
      team_(team),
      world_(world),
      course_(course),
      record_(record) {
  const Options& options = context.options;
  if (options.logical_ranks > 0)
    logical_.emplace(context, team);
  else
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

Sums Stepper::reduce(Range batch, std::vector<double>& words) {
  state_.begin_step();
  reset_gradients(state_);
  const Range own = share(batch, team_.rank(), team_.size());
  // A rank without samples takes part with zero gradients: those of any sample, weighted by zero.
  const bool idle = own.size() == 0;
  const auto targets =
      static_cast<double>(batch.size()) * static_cast<double>(context_.dataset.shape().targets());
  std::optional<Pending> counters;
  torch::Tensor all;
  run_passes(context_, state_.sampler.samples(idle ? Range{batch.begin, batch.begin + 1} : own),
             idle ? 0 : 1 / targets, [&](const Sums& sums) {
               const Sums counted = idle ? Sums{} : sums;
               words.insert(words.end(), {counted.loss, counted.correct, counted.targets});
               all = torch::tensor(words, torch::kFloat64);
               counters.emplace(team_.sum(all));
               reducer_->prepare();
             });
  context_.clock.lap(StepClock::kBackward, reducer_->all_given());
  counters->wait();
  context_.clock.lap(StepClock::kCommunication);
  const auto* word = all.const_data_ptr<double>();
  const std::size_t extra = words.size() - 3;
  words.assign(word, word + extra);
  return {word[extra], word[extra + 1], word[extra + 2]};
}

void Stepper::update(Range batch, StepResult& result) {
  const ElasticWorld::Update update(world_);
  state_.optimizer->step(result.rate);
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
  const Range batch = state_.sampler.next(static_cast<std::uint64_t>(options.batch));
  note_samples(batch);
  context_.clock.begin();
  std::vector<double> words{stop_signal ? 1.0 : 0.0,
                            team_.rank() == 0 ? static_cast<double>(control) : 0};
  StepResult result;
  result.sums = logical_ ? logical_->step(batch, words) : reduce(batch, words);
  result.stop = words[0] > 0;
  result.control = static_cast<unsigned>(words[1]);
  if (options.clip > 0) result.gradient_norm = clip_gradients(state_.parameters, options.clip);
  result.rate =
      learning_rate(options, state_.step, state_.sampler.position(), state_.sampler.size());
  update(batch, result);
  record_.commit(state_.step, course_.committed_epoch);
  context_.clock.lap(StepClock::kUpdate);
  result.parts = context_.clock.seconds();
  if (Timeline::on())
    Timeline::add(fmt::format("step {}", state_.step), context_.clock.begun(),
                  StepClock::Clock::now());
  return result;
}

}  // namespace bellows::trainer
