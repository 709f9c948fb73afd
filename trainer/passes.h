// SPDX-License-Identifier: Apache-2.0
// Forward and backward passes over a share of a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

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

/// Into what passes a share is cut: of `micro_batch` samples, with what is left in the last. Where
/// that makes fewer than `passes`, into so many of nearly the same size, some without samples: the
/// ranks must make as many as each other where these have collectives. A rank without samples makes
/// one pass.
struct Cut {
  std::int64_t micro_batch = 1;
  std::int64_t passes = 1;
};
/// Samples of each pass.
std::vector<std::size_t> cut_sizes(std::size_t samples, const Cut& cut);

/// Adds weight * (gradient of the sum of the losses over `ids`) to the gradients, which have to be
/// reset before. A pass without samples takes part with zero gradients: those of any sample,
/// weighted by zero. `before_last` is called with the sums over all of
/// `ids` between the last forward pass and its backward pass; that one's lap of the clock is the
/// caller's, who knows what it waits for. Leaves in state.norms, if there are such, the square
/// norms of the passes' mean gradients, each times its share of the batch.
void run_passes(const PassContext& context, std::span<const std::uint64_t> ids, const Cut& cut,
                double weight, const std::function<void(const Sums&)>& before_last);

void reset_gradients(const TrainingState& state);

}  // namespace bellows::trainer
