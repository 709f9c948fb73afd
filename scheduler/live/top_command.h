// SPDX-License-Identifier: Apache-2.0
// `bellows top`: the user's jobs, shown anew again and again.
#pragma once

#include <ostream>

#include "scheduler/command/command_line.h"

namespace bellows::scheduler {

/// On a terminal until the user ends it; elsewhere a table, or with --json a line, for each round.
/// Returns the exit code.
int show_top(const Command& command, std::ostream& out);

}  // namespace bellows::scheduler
