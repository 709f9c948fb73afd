// SPDX-License-Identifier: Apache-2.0
#include "trainer/passes.h"

#include <algorithm>
#include <utility>

#include "trainer/batch.h"

namespace bellows::trainer {

Passes::Passes(TrainingState& state, StepClock& clock, std::vector<std::uint64_t> ids,
               std::int64_t micro_batch, double weight,
               std::function<void(const Sums&)> before_last)
    : state_(state),
      clock_(clock),
      ids_(std::move(ids)),
      micro_batch_(static_cast<std::size_t>(micro_batch)),
      weight_(weight),
      before_last_(std::move(before_last)) {
  if (state_.norms) state_.norms->reset();
}

std::span<const std::uint64_t> Passes::samples() const {
  return std::span(ids_).subspan(first_, std::min(micro_batch_, ids_.size() - first_));
}

void Passes::backward(const torch::Tensor& loss, const Sums& sums) {
  sums_.add(sums);
  clock_.lap(StepClock::kForward);
  first_ += micro_batch_;
  if (over()) before_last_(sums_);
  if (state_.norms) state_.norms->next_pass(weight_ > 0 ? 1 / (weight_ * sums.targets) : 0);
  (loss * weight_).backward();
  if (!over()) clock_.lap(StepClock::kBackward);
}

void run_passes(const PassContext& context, Passes& passes) {
  TrainingState& state = context.state;
  while (!passes.over()) {
    const auto part = passes.samples();
    state.model->draw_for(
        {context.options.seed, state.sampler.position().pass, {part.begin(), part.end()}});
    const Batch samples = read_batch(context.dataset, Split::kTrain, part, context.device);
    context.clock.lap(StepClock::kData);
    const Forward forward = run_forward(*state.model, samples);
    passes.backward(forward.loss, {forward.loss.item<double>(), forward.correct.item<double>(),
                                   static_cast<double>(samples.targets.numel())});
  }
}

void run_passes(const PassContext& context, std::span<const std::uint64_t> ids,
                std::int64_t micro_batch, double weight,
                const std::function<void(const Sums&)>& before_last) {
  Passes passes(context.state, context.clock, {ids.begin(), ids.end()}, micro_batch, weight,
                before_last);
  run_passes(context, passes);
}

void reset_gradients(const TrainingState& state) {
  for (const auto& [name, parameter] : state.parameters) parameter.mutable_grad().reset();
}

}  // namespace bellows::trainer
