// SPDX-License-Identifier: Apache-2.0
// What a fuzz target defines, as libFuzzer has it, and how it says that something does not hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace bellows::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the program as a crash does, with `what` that should have been true.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// Whether `attempt` was refused, with an Error; anything else that it throws is a fault.
template <typename Error, typename Attempt>
bool is_refused(Attempt attempt) {
  try {
    attempt();
    return false;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace bellows::fuzz
