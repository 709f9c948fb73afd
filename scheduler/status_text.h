// SPDX-License-Identifier: Apache-2.0
// What bellows prints for people.
#pragma once

#include <string>
#include <string_view>

#include "protocol/message.h"

namespace bellows::scheduler {

/// The answer to "status" as tables. A member that is absent, or of another type, is shown as "-".
std::string status_text(const protocol::Message& status);

/// bellowsd's answer to "jobs", in the same way.
std::string jobs_text(const protocol::Message& jobs);

/// Control characters and backslashes escaped (\x1b, \\): a name cannot act on the terminal, and a
/// line stays a line.
std::string printable(std::string_view text);

}  // namespace bellows::scheduler
