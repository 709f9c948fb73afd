// SPDX-License-Identifier: Apache-2.0
// Forward and backward passes over a share of a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainer/state/training_state.h"
#include "trainer/step/step_clock.h"

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

/// The passes of a rank's share of a batch, one after another: for each, whoever runs it works out
/// the loss of samples() and calls backward(). A pass without samples takes part with zero
/// gradients: those of any sample, weighted by zero.
class Passes {
 public:
  /// Both gradients and norms are those of the sum of all losses times `weight`. `before_last` is
  /// called, once, with the sums over all of `ids` between the last forward pass and its backward
  /// pass; that one's lap of the clock is the caller's, who knows what it waits for. `state` and
  /// `clock` must outlive this.
  Passes(TrainingState& state, StepClock& clock, std::vector<std::uint64_t> ids, const Cut& cut,
         double weight, std::function<void(const Sums&)> before_last);

  bool over() const { return pass_ >= sizes_.size(); }
  /// Whether the next one is the last.
  bool last() const { return pass_ + 1 == sizes_.size(); }
  /// Of the pass that is next; another one where it has none.
  std::span<const std::uint64_t> samples() const;
  bool counts() const { return sizes_[pass_] > 0; }
  /// Adds the gradient of `loss`, the sum over all targets of samples(), to the gradients, which
  /// have to be reset before the first pass. `sums` are those of this pass. Leaves in state.norms,
  /// if there are such, the square norms of the passes' mean gradients, each times its share of the
  /// batch.
  void backward(const torch::Tensor& loss, const Sums& sums);

  /// From the first pass on again, cut otherwise.
  void begin(const Cut& cut);
  const Cut& cut() const { return cut_; }
  std::size_t share() const { return ids_.size(); }
  /// Whether `before_last` has been called.
  bool told() const { return told_; }

 private:
  TrainingState& state_;
  StepClock& clock_;
  std::vector<std::uint64_t> ids_;
  std::uint64_t stand_in_ = 0;
  Cut cut_;
  std::vector<std::size_t> sizes_;  // of the passes
  double weight_;
  std::function<void(const Sums&)> before_last_;
  bool told_ = false;
  std::size_t pass_ = 0;   // that is next
  std::size_t first_ = 0;  // its first sample
  Sums sums_;
};

/// Runs them: the model's on the samples of the data set.
void run_passes(const PassContext& context, Passes& passes);
void run_passes(const PassContext& context, std::span<const std::uint64_t> ids, const Cut& cut,
                double weight, const std::function<void(const Sums&)>& before_last);

void reset_gradients(const TrainingState& state);

}  // namespace bellows::trainer
