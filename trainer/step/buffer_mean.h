// SPDX-License-Identifier: Apache-2.0
// The model's buffers (running statistics of batch normalisation) after a step, the same on all
// ranks.
#pragma once

#include <optional>

#include "trainer/state/training_state.h"
#include "trainer/team/team.h"

namespace bellows::trainer {

/// What a step makes of each buffer is the mean over the ranks of what each rank's passes have made
/// of it, weighted by samples. Running statistics are linear in those of the batches, so they are
/// what one rank would have that averages the statistics of all. What is no floating-point number
/// is rounded; a buffer that no rank has changed stays as it is, bit for bit.
class BufferMean {
 public:
  /// Starts the sum, after this rank's last forward pass. Its samples are the share `weight` of the
  /// batch. Collective; a team of one has nothing to do, nor a model without buffers.
  BufferMean(const TrainingState& state, Team& team, double weight);
  /// Leaves the means in the model's own buffers. Throws MpiError.
  void finish();

 private:
  const TrainingState& state_;
  std::optional<Pending> changes_;
};

}  // namespace bellows::trainer
