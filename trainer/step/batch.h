// SPDX-License-Identifier: Apache-2.0
// Samples as tensors, and what a forward pass over them says.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/data/dataset.h"
#include "trainer/network/model.h"
#include "trainer/torch_headers.h"

namespace bellows::trainer {

struct Batch {
  torch::Tensor inputs;   // {samples, SampleShape::input...}, float or int64
  torch::Tensor targets;  // {samples * SampleShape::targets()}, int64
};

Batch read_batch(const Dataset& dataset, Split split, std::span<const std::uint64_t> ids,
                 const torch::Device& device);

struct Forward {
  torch::Tensor loss;     // sum over targets
  torch::Tensor correct;  // number of targets that have the largest logit
};

Forward run_forward(Model& model, const Batch& batch);

}  // namespace bellows::trainer
