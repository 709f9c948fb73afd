// SPDX-License-Identifier: Apache-2.0
#include "trainer/passes.h"

#include <algorithm>

#include "trainer/batch.h"

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
    sizes.push_back(share({0, samples}, static_cast<int>(i), static_cast<int>(least)).size());
  return sizes;
}

void run_passes(const PassContext& context, std::span<const std::uint64_t> ids, const Cut& cut,
                double weight, const std::function<void(const Sums&)>& before_last) {
  const Options& options = context.options;
  TrainingState& state = context.state;
  // In place of samples where there are none.
  const std::uint64_t any = ids.empty() ? 0 : ids.front();
  const std::vector<std::size_t> sizes = cut_sizes(ids.size(), cut);
  Sums sums;
  if (state.norms) state.norms->reset();
  std::size_t first = 0;
  for (std::size_t pass = 0; pass < sizes.size(); ++pass) {
    const bool counts = sizes[pass] > 0;
    const auto part = counts ? ids.subspan(first, sizes[pass]) : std::span(&any, 1);
    first += sizes[pass];
    state.model->draws() = {
        options.seed, state.sampler.position().pass, {part.begin(), part.end()}};
    state.model->batch_scope().counts = counts;
    const Batch samples = read_batch(context.dataset, Split::kTrain, part, context.device);
    context.clock.lap(StepClock::kData);
    const Forward forward = run_forward(*state.model, samples);
    if (counts)
      sums.add({forward.loss.item<double>(), forward.correct.item<double>(),
                static_cast<double>(samples.targets.numel())});
    context.clock.lap(StepClock::kForward);
    const bool last = pass + 1 == sizes.size();
    if (last) before_last(sums);
    if (state.norms)
      state.norms->next_pass(
          counts && weight > 0 ? 1 / (weight * static_cast<double>(samples.targets.numel())) : 0);
    (forward.loss * (counts ? weight : 0)).backward();
    if (!last) context.clock.lap(StepClock::kBackward);
  }
}

void reset_gradients(const TrainingState& state) {
  for (const auto& [name, parameter] : state.parameters) parameter.mutable_grad().reset();
}

}  // namespace bellows::trainer
