// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/sampler.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "trainer/hash.h"

namespace bellows::trainer {

Permutation::Permutation(std::uint64_t seed, std::uint64_t pass, std::uint64_t size) : size_(size) {
  const int bits = size > 1 ? std::bit_width(size - 1) : 1;
  half_bits_ = std::max(1, (bits + 1) / 2);
  half_mask_ = (std::uint64_t{1} << half_bits_) - 1;
  const std::uint64_t key = mix64(mix64(seed, pass), size);
  for (int round = 0; round < kRounds; ++round) keys_[round] = mix64(key, round);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & half_mask_;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t next = left ^ (mix64(right ^ key) & half_mask_);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::at(std::uint64_t position) const {
  if (position >= size_) throw std::out_of_range("position behind the end of the pass");
  // The network permutes [0, 4^half_bits_), which is less than four times [0, size): walking along
  // its cycle from inside the range always comes back into the range.
  std::uint64_t value = encrypt(position);
  while (value >= size_) value = encrypt(value);
  return value;
}

Range share(Range whole, int rank, int ranks) {
  // n * (r + 1) / R, without overflow for any n.
  const std::uint64_t count = static_cast<std::uint64_t>(ranks);
  const std::uint64_t each = whole.size() / count;
  const std::uint64_t rest = whole.size() % count;
  const auto start = [&](std::uint64_t r) { return whole.begin + each * r + std::min(r, rest); };
  return {start(static_cast<std::uint64_t>(rank)), start(static_cast<std::uint64_t>(rank) + 1)};
}

Sampler::Sampler(std::uint64_t seed, std::uint64_t samples)
    : seed_(seed), samples_(samples), order_(seed, 0, samples) {
  if (samples == 0) throw std::invalid_argument("a sampler needs at least one sample");
}

void Sampler::seek(Position position) {
  if (position.offset >= samples_) throw std::out_of_range("offset behind the end of the pass");
  if (position.pass != position_.pass) order_ = Permutation(seed_, position.pass, samples_);
  position_ = position;
}

Range Sampler::next(std::uint64_t batch) const {
  return {position_.offset, position_.offset + std::min(batch, samples_ - position_.offset)};
}

Position Sampler::behind(Range range) const {
  return range.end < samples_ ? Position{position_.pass, range.end}
                              : Position{position_.pass + 1, 0};
}

bool Sampler::advance(Range range) {
  const Position before = position_;
  seek(behind(range));
  return position_.pass != before.pass;
}

std::vector<std::uint64_t> Sampler::samples(Range range) const {
  std::vector<std::uint64_t> ids;
  ids.reserve(range.size());
  for (std::uint64_t p = range.begin; p < range.end; ++p) ids.push_back(order_.at(p));
  return ids;
}

}  // namespace bellows::trainer
