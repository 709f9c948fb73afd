// SPDX-License-Identifier: Apache-2.0
#include "trainer/network/dropout.h"

#include <cmath>
#include <utility>

#include "trainer/hash.h"

namespace bellows::trainer {

DropoutImpl::DropoutImpl(double rate, int layer, std::shared_ptr<const Draws> draws)
    : rate_(rate), layer_(static_cast<std::uint64_t>(layer)), draws_(std::move(draws)) {}

torch::Tensor DropoutImpl::mask(std::int64_t elements) const {
  const auto samples = static_cast<std::int64_t>(draws_->samples.size());
  torch::Tensor mask = torch::empty({samples, elements}, torch::kFloat32);
  auto* factor = mask.mutable_data_ptr<float>();
  const auto keep = static_cast<float>(1 / (1 - rate_));
  // Each 64-bit word gives four draws of 16 bits.
  const auto limit = static_cast<std::uint64_t>(std::lround(rate_ * 65536));
  const std::uint64_t key = mix64(mix64(draws_->seed, draws_->pass), layer_);
  for (const std::uint64_t sample : draws_->samples) {
    const std::uint64_t sample_key = mix64(key, sample);
    std::uint64_t word = 0;
    for (std::int64_t e = 0; e < elements; ++e) {
      if (e % 4 == 0) word = mix64(sample_key + static_cast<std::uint64_t>(e));
      *factor++ = (word & 0xffff) < limit ? 0.0F : keep;
      word >>= 16;
    }
  }
  return mask;
}

torch::Tensor DropoutImpl::forward(const torch::Tensor& input) {
  if (!is_training() || rate_ == 0) return input;
  TORCH_CHECK(input.size(0) == static_cast<std::int64_t>(draws_->samples.size()),
              "dropout: ", input.size(0), " rows, but draws for ", draws_->samples.size());
  return input * mask(input.numel() / input.size(0)).reshape(input.sizes()).to(input.options());
}

}  // namespace bellows::trainer
