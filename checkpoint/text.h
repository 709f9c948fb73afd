// SPDX-License-Identifier: Apache-2.0
// Names in a checkpoint: what a path may be, and how a name becomes an HDF5 link and comes back.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace bellows::checkpoint {

bool is_utf8(std::string_view text);

/// Splits "group/name" at the first slash. Throws std::invalid_argument when it is not a path as
/// described in state.h, or longer than 4096 bytes.
std::pair<std::string_view, std::string_view> split_path(std::string_view path);

/// '/', '%', control characters and names of dots alone are written %XX, as in a URL.
std::string escape_name(std::string_view name);

}  // namespace bellows::checkpoint
