// SPDX-License-Identifier: Apache-2.0
// Dropout whose mask belongs to the sample: a function of (seed, pass, sample, layer, element), so
// a sample is treated the same on whichever rank, in whatever batch, it is trained.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/torch_headers.h"

namespace bellows::trainer {

/// What the draws of one forward pass are for: `samples` has the number of each row of the input.
struct Draws {
  std::uint64_t seed = 0;
  std::uint64_t pass = 0;
  std::vector<std::uint64_t> samples;
};

class DropoutImpl : public torch::nn::Module {
 public:
  /// `layer` tells the dropouts of a model apart.
  DropoutImpl(double rate, int layer, std::shared_ptr<const Draws> draws);
  /// In training: elements of {samples, ...} are zero with probability `rate` (to 1/65536), else
  /// scaled by 1 / (1 - rate). In evaluation: `input` as it is.
  torch::Tensor forward(const torch::Tensor& input);
  /// The factors for an input with `elements` elements per sample: {samples, elements}, float.
  torch::Tensor mask(std::int64_t elements) const;

 private:
  double rate_;
  std::uint64_t layer_;
  std::shared_ptr<const Draws> draws_;
};
TORCH_MODULE(Dropout);

}  // namespace bellows::trainer
