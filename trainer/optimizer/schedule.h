// SPDX-License-Identifier: Apache-2.0
// The learning rate as a function of where the training stands, never of how it came there.
#pragma once

#include <cstdint>

#include "trainer/data/sampler.h"
#include "trainer/options/options.h"

namespace bellows::trainer {

/// Where a training stands, in the units of its limits. `steps` are scale-invariant (Johnson et
/// al., ICML 2020): updates of the base batch, or what was worth as many. With the base batch
/// throughout it is the number of updates.
struct Standing {
  double steps = 0;
  double passes = 0;
};

/// Steps of the base batch that make up a pass over `samples`.
double steps_per_pass(const Options& options, std::uint64_t samples);

/// Steps of the base batch from the start to `position`: what a step is worth with rules that do
/// not count the gain is the difference of two of these. Exact for positions that are multiples of
/// the base batch.
double steps_to(const Options& options, Position position, std::uint64_t samples);

/// `steps` made, the next samples at `position`. With rules that count the gain, passes are those
/// that so many steps of the base batch make; else those of the data.
Standing standing(const Options& options, double steps, Position position, std::uint64_t samples);

/// Whether the limit of --steps or --passes is reached.
bool limit_reached(const Options& options, const Standing& at);
/// The share of the run that is done by these limits, 0 to 1; 0 where there is none.
double share_done(const Options& options, const Standing& at);
/// Steps of the base batch from the start to the nearer of the two limits; 0 where there is none.
double total_steps(const Options& options, std::uint64_t samples);

/// What --lr-schedule makes of --lr for the step at `at`, without warm-up and without the factor of
/// --lr-rule. With T = total_steps():
/// - step: --lr-gamma to the power of passes / --lr-step, rounded down (torch's StepLR);
/// - cosine: half a cosine from 1 to 0 at the limit (CosineAnnealingLR; Loshchilov and Hutter,
/// 2017);
/// - polynomial: (1 - steps / T)^--lr-power (PolynomialLR);
/// - one-cycle: from 1/25 by half a cosine to 1 over the share --lr-rise of T, then by another to
///   1/250,000 (OneCycleLR without a cycle of the momentum; Smith and Topin, 2018).
double scheduled_rate(const Options& options, const Standing& at, std::uint64_t samples);

}  // namespace bellows::trainer
