// SPDX-License-Identifier: Apache-2.0
// Checksums: XXH64 over the whole file, CRC-32 over each tensor, attribute and list.
//
// Two unrelated functions on purpose. XXH64 (xxhash.com, specification 0.1.1, seed 0) runs at
// memory speed in portable code and 64 bits leave no chance to an accident; CRC-32 is in zlib and
// in every language's standard library, so that another reader can check a tensor by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace bellows::checkpoint {

class Xxh64 {
 public:
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;

 private:
  static constexpr std::size_t kStripe = 32;
  void consume(const std::byte* stripe);

  static constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87ULL;
  static constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FULL;
  std::array<std::uint64_t, 4> lanes_{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  std::array<std::byte, kStripe> rest_{};
  std::size_t rest_size_ = 0;
  std::uint64_t total_ = 0;
};

/// zlib's crc32() of the bytes.
std::uint32_t crc32_of(std::span<const std::byte> bytes);

}  // namespace bellows::checkpoint
