// SPDX-License-Identifier: Apache-2.0
// The list of everything in a checkpoint with types, shapes and checksums: the dataset
// "/manifest.json". It covers what a dataset's own checksum cannot: that nothing was renamed,
// reshaped, exchanged or lost.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "checkpoint/file.h"

namespace bellows::checkpoint {

/// The value's bytes as its checksum sees them: 8 bytes little-endian for an integer or a double,
/// one byte (0, 1) for a boolean, the UTF-8 text of a string.
std::string attribute_bytes(const Attribute& value);
/// "int64", "double", "string", "bool".
std::string_view attribute_type(const Attribute& value);

struct Manifest {
  struct TensorEntry {
    Element element = Element::f32;
    Shape shape;
    std::uint32_t crc32 = 0;
  };
  struct AttributeEntry {
    std::string type;
    std::uint64_t length = 0;  ///< of attribute_bytes()
    std::uint32_t crc32 = 0;
  };
  std::int64_t step = 0;
  std::string created;
  std::map<std::string, TensorEntry> tensors;
  std::map<std::string, AttributeEntry> attributes;
};

/// Their entries; both compute the checksum, so read all of the value.
Manifest::TensorEntry entry_of(const Tensor& tensor);
Manifest::AttributeEntry entry_of(const Attribute& value);

std::string to_json(const Manifest& manifest);
/// Throws std::runtime_error when it is not one.
Manifest manifest_from_json(std::string_view text);

}  // namespace bellows::checkpoint
