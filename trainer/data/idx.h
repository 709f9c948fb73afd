// SPDX-License-Identifier: Apache-2.0
// The idx format of MNIST and its successors: magic 0 0 TYPE DIMENSIONS, one 32-bit big-endian size
// per dimension, then the elements; plain or compressed by gzip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bellows::trainer {

struct Idx {
  std::vector<std::uint32_t> sizes;
  std::vector<std::uint8_t> bytes;
};

/// Reads an idx file of unsigned bytes with `dimensions` dimensions; `path` may be plain or gzip,
/// whatever its name. Throws DataError naming file and offset: unreadable, wrong magic, wrong
/// number of dimensions, truncated, damaged compression, bytes left over.
Idx read_idx(const std::string& path, int dimensions);

}  // namespace bellows::trainer
