// SPDX-License-Identifier: Apache-2.0
// What bellows prints for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/job_event.h"
#include "protocol/message.h"

namespace bellows::scheduler {

/// The answer to "status" as tables. A member that is absent, or of another type, is shown as "-".
std::string status_text(const protocol::Message& status);

/// "4", or "4 (2 pay)": nodes with which a job would do best, and those that pay, by its own word.
std::string best_size(const std::optional<std::int64_t>& best,
                      const std::optional<std::int64_t>& economic);

/// bellowsd's answer to "jobs", in the same way.
std::string jobs_text(const protocol::Message& jobs);

/// A line for each event, under this heading: events come one by one, so the columns cannot wait
/// for the widest.
std::string event_heading();
std::string event_line(const protocol::JobEvent& event);

/// Control characters and backslashes escaped (\x1b, \\): a name cannot act on the terminal, and a
/// line stays a line.
std::string printable(std::string_view text);

}  // namespace bellows::scheduler
