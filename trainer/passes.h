// SPDX-License-Identifier: Apache-2.0
// Forward and backward passes over a share of a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "trainer/step_clock.h"
#include "trainer/training_state.h"

namespace bellows::trainer {

/// What passes need; all must outlive it.
struct PassContext {
  const Options& options;
  const Dataset& dataset;
  torch::Device device;
  TrainingState& state;
  StepClock& clock;
};

/// Adds weight * (gradient of the sum of the losses over `ids`) to the gradients, which have to be
/// reset before. In pieces of `micro_batch`. `before_last` is called with the sums over all of
/// `ids` between the last forward pass and its backward pass; that one's lap of the clock is the
/// caller's, who knows what it waits for. Leaves in state.norms, if there are such, the square
/// norms of the passes' mean gradients, each times its share of the batch.
void run_passes(const PassContext& context, std::span<const std::uint64_t> ids,
                std::int64_t micro_batch, double weight,
                const std::function<void(const Sums&)>& before_last);

void reset_gradients(const TrainingState& state);

}  // namespace bellows::trainer
