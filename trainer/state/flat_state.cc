// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/flat_state.h"

#include <algorithm>
#include <cstring>

namespace bellows::trainer {

namespace {

/// The tensor's memory in its own order; no copy.
torch::Tensor bytes_of(const torch::Tensor& tensor) {
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "a tensor of the state has holes");
  return at::as_strided(tensor.detach(), {tensor.numel()}, {1}).view(torch::kUInt8);
}

torch::Tensor around(const std::byte* bytes, std::size_t count) {
  return torch::from_blob(const_cast<std::byte*>(bytes), {static_cast<std::int64_t>(count)},
                          torch::kUInt8);
}

}  // namespace

FlatState::FlatState(TrainingState& state) : state_(state), counters_(state.counters()) {
  const torch::NoGradGuard no_grad;
  const std::size_t in_head = 1 + state.buffers.size();
  size_ = sizeof counters_;
  for (const torch::Tensor& tensor : state.tensors()) {
    bytes_.push_back(bytes_of(tensor));
    offsets_.push_back(size_);
    size_ += tensor.nbytes();
    if (bytes_.size() == in_head) head_ = size_;
  }
}

template <typename F>
void FlatState::for_overlaps(std::size_t offset, std::size_t count, F f) const {
  const std::size_t end = offset + count;
  // The last one that begins at or before `offset`, and those behind it.
  const auto first = std::upper_bound(offsets_.begin(), offsets_.end(), offset);
  auto i = static_cast<std::size_t>(std::max<std::ptrdiff_t>(first - offsets_.begin() - 1, 0));
  for (; i < bytes_.size() && offsets_[i] < end; ++i) {
    const std::size_t from = std::max(offset, offsets_[i]);
    const std::size_t to = std::min(end, offsets_[i] + bytes_[i].nbytes());
    if (from < to)
      f(bytes_[i].slice(0, static_cast<std::int64_t>(from - offsets_[i]),
                        static_cast<std::int64_t>(to - offsets_[i])),
        from - offset, to - from);
  }
}

void FlatState::read(std::size_t offset, std::span<std::byte> to) const {
  if (offset < sizeof counters_)
    std::memcpy(to.data(), reinterpret_cast<const std::byte*>(&counters_) + offset,
                std::min(to.size(), sizeof counters_ - offset));
  for_overlaps(offset, to.size(), [&](const torch::Tensor& part, std::size_t at, std::size_t n) {
    around(to.data() + at, n).copy_(part);
  });
}

void FlatState::write(std::size_t offset, std::span<const std::byte> from) {
  if (offset < sizeof counters_)
    std::memcpy(reinterpret_cast<std::byte*>(&counters_) + offset, from.data(),
                std::min(from.size(), sizeof counters_ - offset));
  for_overlaps(offset, from.size(), [&](torch::Tensor part, std::size_t at, std::size_t n) {
    part.copy_(around(from.data() + at, n));
  });
}

void FlatState::finish() {
  state_.set_counters(counters_);
  state_.previous = {};
}

}  // namespace bellows::trainer
