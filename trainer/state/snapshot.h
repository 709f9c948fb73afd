// SPDX-License-Identifier: Apache-2.0
// A training state as a checkpoint has it, and back.
#pragma once

#include "checkpoint/state.h"
#include "trainer/options/options.h"
#include "trainer/state/training_state.h"

namespace bellows::trainer {

/// Shares the memory of the tensors: they must not change until the result has been used.
checkpoint::State capture(const TrainingState& state, const Options& options);

/// Fills `state` from a checkpoint. Throws UsageError when it was made with options that differ in
/// a way that changes the result (unless options.accept_changes), or does not fit the model.
void restore(TrainingState& state, const Options& options, const checkpoint::State& from);

}  // namespace bellows::trainer
