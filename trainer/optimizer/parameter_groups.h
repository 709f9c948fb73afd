// SPDX-License-Identifier: Apache-2.0
// Which parameters an optimizer treats alike: with weight decay or without, and with which factor
// on the learning rate.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/options/options.h"
#include "trainer/state/named_tensors.h"

namespace bellows::trainer {

struct ParameterGroup {
  bool decays = true;  // has the optimizer's weight decay
  double factor = 1;   // on the learning rate
  std::vector<std::size_t> members;
};

/// By --no-decay and --lr-factors; each parameter is in one of them, and the first group has the
/// first parameter. Throws UsageError for a pattern that no parameter's name matches.
///
/// A parameter is a bias if the last part of its name is "bias". It belongs to a normalisation if
/// its layer has a weight with one dimension: so have those of PyTorch, and no other layers.
std::vector<ParameterGroup> parameter_groups(const Options& options,
                                             const NamedTensors& parameters);

}  // namespace bellows::trainer
