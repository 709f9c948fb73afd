// SPDX-License-Identifier: Apache-2.0
#include "trainer/step.h"

#include <algorithm>
#include <span>
#include <vector>

#include "trainer/batch.h"
#include "trainer/schedule.h"

namespace bellows::trainer {

Stepper::Stepper(const Options& options, const Dataset& dataset, const torch::Device& device,
                 TrainingState& state, Team& team, ElasticWorld& world, Course& course,
                 SampleRecord& record)
    : options_(options),
      dataset_(dataset),
      device_(device),
      state_(state),
      team_(team),
      world_(world),
      course_(course),
      record_(record),
      reducer_(state.parameters, team.backend(),
               static_cast<std::int64_t>(options.bucket_mb * (1 << 20))) {}

Pending Stepper::accumulate(Range batch, unsigned control, bool stop_signal) {
  const Range own = share(batch, team_.rank(), team_.size());
  // A rank without samples takes part with zero gradients: those of any sample, weighted by zero.
  const bool idle = own.size() == 0;
  const std::vector<std::uint64_t> ids =
      state_.sampler.samples(idle ? Range{batch.begin, batch.begin + 1} : own);
  const auto targets =
      static_cast<double>(batch.size()) * static_cast<double>(dataset_.shape().targets());
  const double weight = idle ? 0 : 1 / targets;
  if (record_.wanted())
    record_.begin({world_.epoch(), state_.step + 1, state_.sampler.position().pass, batch,
                   idle ? std::vector<std::uint64_t>{} : ids});
  const std::size_t micro =
      options_.micro_batch > 0 ? static_cast<std::size_t>(options_.micro_batch) : ids.size();

  for (const auto& [name, parameter] : state_.parameters) parameter.mutable_grad().reset();
  Sums sums;
  for (std::size_t first = 0;; first += micro) {
    const auto part = std::span(ids).subspan(first, std::min(micro, ids.size() - first));
    state_.model->draws() = {
        options_.seed, state_.sampler.position().pass, {part.begin(), part.end()}};
    const Batch samples = read_batch(dataset_, Split::kTrain, part, device_);
    const Forward forward = run_forward(*state_.model, samples);
    if (!idle)
      sums.add({forward.loss.item<double>(), forward.correct.item<double>(),
                static_cast<double>(samples.targets.numel())});
    const torch::Tensor loss = forward.loss * weight;
    if (first + micro < ids.size()) {
      loss.backward();
      continue;
    }
    const double word = team_.rank() == 0 ? static_cast<double>(control) : 0;
    Pending counters = team_.sum(torch::tensor(
        {sums.loss, sums.correct, sums.targets, stop_signal ? 1.0 : 0.0, word}, torch::kFloat64));
    reducer_.prepare();
    loss.backward();
    return counters;
  }
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
  const Range batch = state_.sampler.next(static_cast<std::uint64_t>(options_.batch));
  state_.begin_step();
  Pending counters = accumulate(batch, control, stop_signal);
  const torch::Tensor total = counters.wait();
  const auto* word = total.const_data_ptr<double>();

  StepResult result;
  result.sums = {word[0], word[1], word[2]};
  result.stop = word[3] > 0;
  result.control = static_cast<unsigned>(word[4]);
  if (options_.clip > 0) result.gradient_norm = clip_gradients(state_.parameters, options_.clip);
  result.rate =
      learning_rate(options_, state_.step, state_.sampler.position(), state_.sampler.size());
  update(batch, result);
  record_.commit(state_.step, course_.committed_epoch);
  return result;
}

}  // namespace bellows::trainer
