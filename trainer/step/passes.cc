// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/passes.h"

#include <algorithm>
#include <utility>

#include "trainer/step/batch.h"

namespace bellows::trainer {

std::vector<std::size_t> cut_sizes(std::size_t samples, const Cut& cut) {
  const auto micro = static_cast<std::size_t>(std::max<std::int64_t>(1, cut.micro_batch));
  const auto least = static_cast<std::size_t>(std::max<std::int64_t>(1, cut.passes));
  std::vector<std::size_t> sizes;
  for (std::size_t first = 0; first < samples; first += micro)
    sizes.push_back(std::min(micro, samples - first));
  if (sizes.size() >= least) return sizes;
  sizes.clear();
  for (std::size_t i = 0; i < least; ++i)
    sizes.push_back(
        trainer::share({0, samples}, static_cast<int>(i), static_cast<int>(least)).size());
  return sizes;
}

Passes::Passes(TrainingState& state, StepClock& clock, std::vector<std::uint64_t> ids,
               const Cut& cut, double weight, std::function<void(const Sums&)> before_last)
    : state_(state),
      clock_(clock),
      ids_(std::move(ids)),
      weight_(weight),
      before_last_(std::move(before_last)) {
  begin(cut);
}

void Passes::begin(const Cut& cut) {
  cut_ = cut;
  sizes_ = cut_sizes(ids_.size(), cut);
  pass_ = first_ = 0;
  sums_ = {};
  if (state_.norms) state_.norms->reset();
}

std::span<const std::uint64_t> Passes::samples() const {
  if (!counts()) return std::span(ids_.empty() ? &stand_in_ : ids_.data(), 1);
  return std::span(ids_).subspan(first_, sizes_[pass_]);
}

void Passes::backward(const torch::Tensor& loss, const Sums& sums) {
  const bool counted = counts();
  const double weight = counted ? weight_ : 0;
  if (counted) sums_.add(sums);
  clock_.lap(StepClock::kForward);
  first_ += sizes_[pass_++];
  if (over() && !std::exchange(told_, true)) before_last_(sums_);
  if (state_.norms) state_.norms->next_pass(weight > 0 ? 1 / (weight * sums.targets) : 0);
  (loss * weight).backward();
  if (!over()) clock_.lap(StepClock::kBackward);
}

void run_passes(const PassContext& context, Passes& passes) {
  TrainingState& state = context.state;
  while (!passes.over()) {
    const auto part = passes.samples();
    state.model->draw_for(
        {context.options.seed, state.sampler.position().pass, {part.begin(), part.end()}});
    state.model->batch_scope().counts = passes.counts();
    const Batch samples = read_batch(context.dataset, Split::kTrain, part, context.device);
    context.clock.lap(StepClock::kData);
    const Forward forward = run_forward(*state.model, samples);
    passes.backward(forward.loss, {forward.loss.item<double>(), forward.correct.item<double>(),
                                   static_cast<double>(samples.targets.numel())});
  }
}

void run_passes(const PassContext& context, std::span<const std::uint64_t> ids, const Cut& cut,
                double weight, const std::function<void(const Sums&)>& before_last) {
  Passes passes(context.state, context.clock, {ids.begin(), ids.end()}, cut, weight, before_last);
  run_passes(context, passes);
}

void reset_gradients(const TrainingState& state) {
  for (const auto& [name, parameter] : state.parameters) parameter.mutable_grad().reset();
}

}  // namespace bellows::trainer
