// SPDX-License-Identifier: Apache-2.0
// The events of a job as bellows-run --events has left them in a file.
#pragma once

#include <functional>
#include <string>

#include "protocol/job_event.h"

namespace bellows::scheduler {

/// Gives each event to `take`, in the order of the lines, and to `complain` a sentence for what is
/// not one: a line that was not written whole, as a launcher that was killed leaves it. Throws
/// std::runtime_error when the file cannot be read.
void read_event_file(const std::string& path,
                     const std::function<void(const protocol::JobEvent&)>& take,
                     const std::function<void(const std::string&)>& complain);

}  // namespace bellows::scheduler
