// SPDX-License-Identifier: Apache-2.0
// The loss and accuracy of a model on the test split, each rank looking at a part of it.
#pragma once

#include "trainer/state/training_state.h"
#include "trainer/team/team.h"

namespace bellows::trainer {

/// With the averages of the parameters where --ema asks for them.
///
/// Collective; the same result on every rank, and to rounding for any number of ranks. Does not
/// change the state. Throws std::runtime_error when the ranks' parameters are not the same, bit for
/// bit; after an MpiError the model may be left in evaluation mode.
Sums evaluate(TrainingState& state, const Dataset& dataset, const torch::Device& device,
              Team& team);

}  // namespace bellows::trainer
