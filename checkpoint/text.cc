// SPDX-License-Identifier: Apache-2.0
// Names in a checkpoint.
#include "checkpoint/text.h"

#include <cstdint>
#include <stdexcept>

namespace bellows::checkpoint {
namespace {

constexpr std::size_t kLongestPath = 4096;

bool is_group_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

}  // namespace

bool is_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int more = lead < 0x80 ? 0 : lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4) return false;
    if (i + static_cast<std::size_t>(more) >= text.size()) return false;
    std::uint32_t code = more == 0 ? lead : lead & (0x3FU >> more);
    for (int k = 1; k <= more; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]);
      if ((byte & 0xC0) != 0x80) return false;
      code = (code << 6) | (byte & 0x3FU);
    }
    // Overlong forms, surrogates, beyond Unicode.
    if ((more == 2 && code < 0x800) || (more == 3 && code < 0x10000) || code > 0x10FFFF ||
        (code >= 0xD800 && code <= 0xDFFF))
      return false;
    i += static_cast<std::size_t>(more) + 1;
  }
  return true;
}

std::pair<std::string_view, std::string_view> split_path(std::string_view path) {
  const auto refuse = [&](const char* why) {
    throw std::invalid_argument("checkpoint path '" + std::string(path.substr(0, 200)) + "' " +
                                why);
  };
  if (path.size() > kLongestPath) refuse("is longer than 4096 bytes");
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == path.size())
    refuse("is not of the form group/name");
  for (const char c : path.substr(0, slash))
    if (!is_group_character(c)) refuse("has a group of other characters than letters, digits, _ -");
  if (!is_utf8(path)) refuse("is not UTF-8");
  return {path.substr(0, slash), path.substr(slash + 1)};
}

std::string escape_name(std::string_view name) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  const bool only_dots = name.find_first_not_of('.') == std::string_view::npos;
  std::string escaped;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/' || c == '%' || byte < 0x20 || byte == 0x7F || only_dots) {
      escaped += '%';
      escaped += kHex[byte >> 4];
      escaped += kHex[byte & 15];
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace bellows::checkpoint
