// SPDX-License-Identifier: Apache-2.0
// How far batch and learning rate have followed the allocation: what a step makes of that, from
// nothing but the state before it and sums over all ranks, so that all ranks have the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "trainer/adaptation/batch_rule.h"
#include "trainer/adaptation/gradient_noise.h"
#include "trainer/adaptation/policy.h"
#include "trainer/adaptation/profile.h"
#include "trainer/data/sampler.h"
#include "trainer/options/options.h"

namespace bellows::trainer {

/// A part of the state of a training; sent and stored as bytes: whole words only.
struct Adaptation {
  double progress = 0;            // scale-invariant steps made
  std::int64_t batch = 0;         // of the last step, of all ranks; 0: none was made
  std::int64_t micro_batch = 0;   // likewise, of one pass of a rank, at most
  std::int64_t accumulation = 0;  // likewise, passes of a rank before its last
  std::int64_t rank_batch = 0;    // --rank-batch, or what the first world made of it; 0: not yet
  double factor = 1;              // of --lr-rule on the learning rate, in the last step
  double ramp_from = 1;           // that of the last step before the scale changed
  double ramp_start = 0;          // progress at that change
  double rate = 0;                // learning rate of the last step
  double policy_factor = 1;       // of a policy on the learning rate
  // Samples at once that fit into memory where more did not, on any rank; 0: not met. No checkpoint
  // has it, since another run may have more memory.
  std::int64_t fits = 0;
  GroupAverages noise{};
  Profile profile;  // in a checkpoint only with options.adapts(): the same run has the same bits
  bool operator==(const Adaptation&) const = default;
};

/// A step that is about to be made.
struct AdaptedStep {
  Adaptation after;  // the state becomes this with the update
  double rate = 0;   // learning rate, of all parameters together
  // The same by group of parameters as gradient noise tells them apart: adascale and adamscale go
  // by the gain of each.
  std::array<double, kNoiseGroups> rates{};
  double scale = 1;  // batch / --batch
  double gain = 1;   // at this scale
};

/// The step that takes the samples from `begin` to `end`, of a pass over `samples`, by `plan`, and
/// in which `measured` was found of each group of parameters, if anything.
AdaptedStep adapt(const Options& options, const Adaptation& before, const BatchPlan& plan,
                  Position begin, Position end, std::uint64_t samples,
                  std::span<const MicroGradients> measured);

/// What a policy is told of the state; what else there is to know is the caller's to add.
Situation situation(const Options& options, const Adaptation& now, int nodes, int ranks);

}  // namespace bellows::trainer
