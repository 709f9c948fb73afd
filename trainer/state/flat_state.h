// SPDX-License-Identifier: Apache-2.0
// A training state as one line of bytes: what is sent to another rank, or kept in a file while the
// process replaces itself.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/state/training_state.h"

namespace bellows::trainer {

/// Counters, generator and buffers (the head), then parameters and optimizer state. The head may
/// differ between ranks at the same step (batch statistics are each rank's own), so it has to come
/// from one of them; the rest is the same on all.
///
/// A view: the state must outlive it and not be updated meanwhile.
class FlatState {
 public:
  explicit FlatState(TrainingState& state);
  std::size_t size() const { return size_; }
  std::size_t head() const { return head_; }
  /// Copies the bytes from `offset` on.
  void read(std::size_t offset, std::span<std::byte> to) const;
  void write(std::size_t offset, std::span<const std::byte> from);
  /// After the head has been written: takes its counters.
  void finish();

 private:
  // Calls f(tensor's bytes from..., position in the span, bytes) for what lies in the range.
  template <typename F>
  void for_overlaps(std::size_t offset, std::size_t count, F f) const;

  TrainingState& state_;
  Counters counters_;
  std::vector<torch::Tensor> bytes_;  // each tensor's memory, as bytes
  std::vector<std::size_t> offsets_;  // where each begins
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace bellows::trainer
