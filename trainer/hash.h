// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: a draw is a function of what it is for (seed, pass, sample, ...),
// so it is the same on whichever rank it is made. And hashes of bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace bellows::trainer {

/// A bijection of 64-bit words in which every input bit changes every output bit with probability
/// near 1/2 (the finaliser of SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Combines a key with one more word; order matters.
constexpr std::uint64_t mix64(std::uint64_t key, std::uint64_t word) {
  return mix64(key + 0x9e3779b97f4a7c15ULL + mix64(word ^ 0xd1b54a32d192ed03ULL));
}

/// Of every bit of `bytes` and their number; not for adversaries.
inline std::uint64_t hash_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = bytes.size();
  // Independent products, so that the processor can overlap them.
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
    sum += mix64(word + i * 0x9e3779b97f4a7c15ULL);
  }
  return sum;
}

}  // namespace bellows::trainer
