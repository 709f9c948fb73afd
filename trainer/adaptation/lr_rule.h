// SPDX-License-Identifier: Apache-2.0
// How the learning rate follows the batch: a factor on what the schedule says, from the scale (the
// batch over the base batch, to which --lr belongs) and the gain (gradient_noise.h).
#pragma once

#include <string>
#include <vector>

namespace bellows::trainer {

/// none, linear, sqrt, adascale, adamscale, legw.
const std::vector<std::string>& lr_rule_names();

/// Whether steps of this rule are worth their gain, so that progress and limits count it, and
/// gradient noise has to be measured. With the others a step is worth its samples.
bool counts_gain(const std::string& rule);

/// Factor on the learning rate at `scale` > 0; 1 at scale 1 with every rule.
/// - none: 1.
/// - linear: scale (Goyal et al., "Accurate, Large Minibatch SGD", 2017).
/// - sqrt: scale^0.5 (Krizhevsky, "One weird trick", 2014; Hoffer et al., NIPS 2017).
/// - adascale: gain (Johnson et al., "AdaScale SGD", ICML 2020).
/// - adamscale: gain^0.5, for optimizers that precondition (AdaptDL's form of AdaScale; Qiao et
/// al.,
///   OSDI 2021).
/// - legw: scale^0.5, with a warm-up that takes `scale` times as many passes (warm_up() below; You
///   et al., "Large-Batch Training for LSTM and Beyond", SC 2019).
double lr_factor(const std::string& rule, double scale, double gain);

/// Factor during the first `warmup` steps (of the base batch; 0: none): rises in equal parts to 1.
/// `progress` counts the scale-invariant steps that are done, the step in hand is one of `scale`.
/// With legw the warm-up takes scale * warmup, so as many updates at every scale.
double warm_up(const std::string& rule, double warmup, double progress, double scale);

/// Progressive linear scaling (Hu et al., "Elan", ICDCS 2020, section IV): after the scale has
/// changed the factor goes from the one in use to the new one in equal parts over `ramp` updates
/// (0: at once), so that the momentum and the loss follow. With linear and sqrt only: gain moves by
/// itself, legw has its warm-up. `since` are the scale-invariant steps made since the change.
double ramped_factor(const std::string& rule, double from, double to, double ramp, double since,
                     double scale);

}  // namespace bellows::trainer
