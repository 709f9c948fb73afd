// SPDX-License-Identifier: Apache-2.0
// The first 512 bytes of a checkpoint: text that says what the file is, how long it is and what its
// bytes hash to, checked before HDF5 (which may crash on a damaged file) sees anything.
// docs/checkpoint-format.md, section "The seal"; its layout is the same in all format versions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "checkpoint/file.h"

namespace bellows::checkpoint {

inline constexpr std::size_t kSealSize = 512;

struct Seal {
  Info info;
  std::uint64_t xxh64 = 0;  ///< of all bytes after the seal
};

std::array<std::byte, kSealSize> encode_seal(const Seal& seal);

/// `head`: the file's first bytes, up to kSealSize + 8. `file_size`: its true size. Throws Error
/// naming `file`.
Seal decode_seal(const std::filesystem::path& file, std::span<const std::byte> head,
                 std::uint64_t file_size);

}  // namespace bellows::checkpoint
