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

/// The passes of a rank's share of a batch, one after another: for each, whoever runs it works out
/// the loss of samples() and calls backward().
class Passes {
 public:
  /// `ids` are worked through in pieces of `micro_batch`; both gradients and norms are those of the
  /// sum of all losses times `weight`. `before_last` is called with the sums over all of `ids`
  /// between the last forward pass and its backward pass; that one's lap of the clock is the
  /// caller's, who knows what it waits for. `state` and `clock` must outlive this.
  Passes(TrainingState& state, StepClock& clock, std::vector<std::uint64_t> ids,
         std::int64_t micro_batch, double weight, std::function<void(const Sums&)> before_last);

  bool over() const { return first_ >= ids_.size(); }
  /// Of the pass that is next.
  std::span<const std::uint64_t> samples() const;
  /// Adds the gradient of `loss`, the sum over all targets of samples(), to the gradients, which
  /// have to be reset before the first pass. `sums` are those of this pass. Leaves in state.norms,
  /// if there are such, the square norms of the passes' mean gradients, each times its share of the
  /// batch.
  void backward(const torch::Tensor& loss, const Sums& sums);

 private:
  TrainingState& state_;
  StepClock& clock_;
  std::vector<std::uint64_t> ids_;
  std::size_t micro_batch_;
  double weight_;
  std::function<void(const Sums&)> before_last_;
  std::size_t first_ = 0;
  Sums sums_;
};

/// Runs them: the model's on the samples of the data set.
void run_passes(const PassContext& context, Passes& passes);
void run_passes(const PassContext& context, std::span<const std::uint64_t> ids,
                std::int64_t micro_batch, double weight,
                const std::function<void(const Sums&)>& before_last);

void reset_gradients(const TrainingState& state);

}  // namespace bellows::trainer
