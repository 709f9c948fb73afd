// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/buffer_mean.h"

#include <vector>

namespace bellows::trainer {

BufferMean::BufferMean(const TrainingState& state, Team& team, double weight) : state_(state) {
  if (team.size() == 1 || state.buffers.empty()) return;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> changes;
  const std::vector<torch::Tensor> now = state.model_buffers();
  for (std::size_t i = 0; i < state.buffers.size(); ++i) {
    const torch::Tensor& before = state.buffers[i].second;
    const torch::Tensor& after = now[i];
    // Not the difference where there is none: that of infinite numbers is none.
    const torch::Tensor change = after.to(torch::kFloat64) - before.to(torch::kFloat64);
    changes.push_back(at::where(after.eq(before), at::zeros_like(change), change).reshape({-1}));
  }
  changes_.emplace(team.sum((at::cat(changes) * weight).cpu()));
}

void BufferMean::finish() {
  if (!changes_) return;
  const torch::NoGradGuard no_grad;
  const torch::Tensor& all = changes_->wait();
  const std::vector<torch::Tensor> now = state_.model_buffers();
  std::int64_t at = 0;
  for (std::size_t i = 0; i < state_.buffers.size(); ++i) {
    const torch::Tensor& before = state_.buffers[i].second;
    torch::Tensor change =
        all.slice(0, at, at + before.numel()).view(before.sizes()).to(before.device());
    at += before.numel();
    if (!before.is_floating_point()) change = change.round();
    const torch::Tensor moved = (before.to(torch::kFloat64) + change).to(before.scalar_type());
    now[i].copy_(at::where(change.eq(0), before, moved));
  }
}

}  // namespace bellows::trainer
