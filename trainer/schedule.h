// SPDX-License-Identifier: Apache-2.0
// The learning rate as a function of where the training stands, never of how it came there.
#pragma once

#include <cstdint>

#include "trainer/options.h"
#include "trainer/sampler.h"

namespace bellows::trainer {

/// Learning rate of the update that takes the samples at `position`; `step` counts the updates
/// made before it, `samples` is the size of a pass.
double learning_rate(const Options& options, std::int64_t step, Position position,
                     std::uint64_t samples);

}  // namespace bellows::trainer
