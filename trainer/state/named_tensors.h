// SPDX-License-Identifier: Apache-2.0
// The parts of a model or of an optimizer's state, in an order that is the same on all ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/torch_headers.h"

namespace bellows::trainer {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

}  // namespace bellows::trainer
