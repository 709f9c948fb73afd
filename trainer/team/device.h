// SPDX-License-Identifier: Apache-2.0
// The one place that knows whether this build has CUDA.
#pragma once

#include <functional>
#include <string>

#include "trainer/torch_headers.h"

namespace bellows::trainer {

/// "cpu" or "cuda" (the device of this rank of the node). Throws UsageError when this build or this
/// machine has no such device.
torch::Device make_device(const std::string& name, int local_rank);

/// NCCL's collectives for `device`; `broadcast` sends a text of rank 0 to all. Collective.
c10::intrusive_ptr<c10d::Backend> make_cuda_backend(
    int rank, int size, const torch::Device& device,
    const std::function<std::string(std::string)>& broadcast);

}  // namespace bellows::trainer
