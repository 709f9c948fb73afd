// SPDX-License-Identifier: Apache-2.0
#include "trainer/passes.h"

#include <algorithm>

#include "trainer/batch.h"

namespace bellows::trainer {

void run_passes(const PassContext& context, std::span<const std::uint64_t> ids,
                std::int64_t micro_batch, double weight,
                const std::function<void(const Sums&)>& before_last) {
  const Options& options = context.options;
  TrainingState& state = context.state;
  const auto micro = static_cast<std::size_t>(micro_batch);
  Sums sums;
  if (state.norms) state.norms->reset();
  for (std::size_t first = 0; first < ids.size(); first += micro) {
    const auto part = ids.subspan(first, std::min(micro, ids.size() - first));
    state.model->draws() = {
        options.seed, state.sampler.position().pass, {part.begin(), part.end()}};
    const Batch samples = read_batch(context.dataset, Split::kTrain, part, context.device);
    context.clock.lap(StepClock::kData);
    const Forward forward = run_forward(*state.model, samples);
    sums.add({forward.loss.item<double>(), forward.correct.item<double>(),
              static_cast<double>(samples.targets.numel())});
    context.clock.lap(StepClock::kForward);
    const bool last = first + micro >= ids.size();
    if (last) before_last(sums);
    if (state.norms)
      state.norms->next_pass(
          weight > 0 ? 1 / (weight * static_cast<double>(samples.targets.numel())) : 0);
    (forward.loss * weight).backward();
    if (!last) context.clock.lap(StepClock::kBackward);
  }
}

void reset_gradients(const TrainingState& state) {
  for (const auto& [name, parameter] : state.parameters) parameter.mutable_grad().reset();
}

}  // namespace bellows::trainer
