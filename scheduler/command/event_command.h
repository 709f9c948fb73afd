// SPDX-License-Identifier: Apache-2.0
// `bellows events`: of a running job by its control socket, of any from a file.
#pragma once

#include <ostream>
#include <string>

#include "scheduler/command/command_line.h"

namespace bellows::scheduler {

/// Prints the events of the job whose bellows-run listens at `socket`, with --follow until it has
/// ended. Returns the exit code. Throws NoAnswer.
int show_events(const Command& command, const std::string& socket, std::ostream& out,
                std::ostream& err);

/// Those of the file that --file names. Throws std::runtime_error when it cannot be read.
int show_event_file(const Command& command, std::ostream& out, std::ostream& err);

}  // namespace bellows::scheduler
