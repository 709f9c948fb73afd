// SPDX-License-Identifier: Apache-2.0
// Which samples a step works on. The order of a pass is one permutation from (seed, pass); a step
// takes the next samples of it and each rank a contiguous share, so the sequence of batches does
// not depend on the number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace bellows::trainer {

/// A random permutation of [0, size) with random access and a few words of memory: a Feistel
/// network on the next even number of bits, walked until the value falls into the range (Black
/// and Rogaway, CT-RSA 2002; at most four rounds of the network per value on average).
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::uint64_t pass, std::uint64_t size);
  std::uint64_t size() const { return size_; }
  /// The value at `position`, which must be below size().
  std::uint64_t at(std::uint64_t position) const;

 private:
  static constexpr int kRounds = 6;
  std::uint64_t encrypt(std::uint64_t value) const;
  std::uint64_t size_;
  int half_bits_ = 1;
  std::uint64_t half_mask_ = 1;
  std::array<std::uint64_t, kRounds> keys_{};
};

/// Half-open range of positions.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// The part of `whole` that `rank` of `ranks` takes: sizes differ by one at most, and the parts
/// cover `whole` exactly. A part is empty when there are more ranks than positions.
Range share(Range whole, int rank, int ranks);

/// Where the training stands in its data. `offset` counts the samples of `pass` already used.
struct Position {
  std::uint64_t pass = 0;
  std::uint64_t offset = 0;
  bool operator==(const Position&) const = default;
};

/// Walks through passes. The last batch of a pass is what is left of it, so that each sample is
/// used once per pass whatever the batch.
class Sampler {
 public:
  Sampler(std::uint64_t seed, std::uint64_t samples);

  std::uint64_t size() const { return samples_; }
  const Position& position() const { return position_; }
  void seek(Position position);
  /// Positions of the next batch of at most `batch` samples. Does not move.
  Range next(std::uint64_t batch) const;
  /// The position after `range`.
  Position behind(Range range) const;
  /// Moves behind `range`; returns true when that ends a pass.
  bool advance(Range range);
  /// Sample numbers at the positions `range` of the current pass.
  std::vector<std::uint64_t> samples(Range range) const;

 private:
  std::uint64_t seed_;
  std::uint64_t samples_;
  Position position_;
  Permutation order_;
};

}  // namespace bellows::trainer
