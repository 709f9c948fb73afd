// SPDX-License-Identifier: Apache-2.0
#include "trainer/torch_error.h"

#include "trainer/torch_headers.h"

namespace bellows::trainer {

std::string text_of(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : std::string(error.what());
}

std::string first_line_of(const std::exception& error) {
  const std::string text = text_of(error);
  return text.substr(0, text.find('\n'));
}

}  // namespace bellows::trainer
