// SPDX-License-Identifier: Apache-2.0
// What errors say, without the stack of C++ frames that libtorch's carry along.
#pragma once

#include <exception>
#include <string>

namespace bellows::trainer {

std::string text_of(const std::exception& error);
/// Its first line: an exported network's interpreter adds where it was.
std::string first_line_of(const std::exception& error);

}  // namespace bellows::trainer
