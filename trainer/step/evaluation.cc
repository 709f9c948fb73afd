// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/evaluation.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "trainer/step/batch.h"

namespace bellows::trainer {

namespace {

// Values of input looked at in one forward pass: bounds the memory, not the result.
constexpr std::int64_t kInputs = 200000;

/// This rank's, with the averaged parameters where such are kept.
Sums evaluate_part(TrainingState& state, const Dataset& dataset, const torch::Device& device,
                   const Team& team) {
  const AveragesInUse averages(state.parameters, state.average);
  state.model->eval();
  const Range part = share({0, dataset.size(Split::kTest)}, team.rank(), team.size());
  const auto each = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(kInputs / dataset.shape().input_size(), 1, 1000));
  Sums own;
  for (std::uint64_t first = part.begin; first < part.end; first += each) {
    std::vector<std::uint64_t> ids(std::min(each, part.end - first));
    std::iota(ids.begin(), ids.end(), first);
    const Batch batch = read_batch(dataset, Split::kTest, ids, device);
    const Forward forward = run_forward(*state.model, batch);
    own.add({forward.loss.item<double>(), forward.correct.item<double>(),
             static_cast<double>(batch.targets.numel())});
  }
  state.model->train();
  return own;
}

}  // namespace

Sums evaluate(TrainingState& state, const Dataset& dataset, const torch::Device& device,
              Team& team) {
  if (!team.agree(state.parameter_hash()))
    throw std::runtime_error(
        "the ranks' parameters have drifted apart: this is a defect, or a "
        "rank computes wrongly");
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> own_buffers = state.model_buffers();
  for (std::size_t i = 0; i < state.buffers.size(); ++i)
    own_buffers[i].copy_(state.buffers[i].second);
  const Sums own = evaluate_part(state, dataset, device, team);
  const std::vector<double> all = team.sum(std::vector{own.loss, own.correct, own.targets});
  return {all[0], all[1], all[2]};
}

}  // namespace bellows::trainer
