// SPDX-License-Identifier: Apache-2.0
// `bellows picture`: from bellowsd's event files to a page or to JSON.
#pragma once

#include <ostream>

#include "scheduler/command/command_line.h"

namespace bellows::scheduler {

/// Returns the exit code. Throws std::runtime_error naming the file, or what gnuplot has said.
int show_picture(const Command& command, std::ostream& out, std::ostream& err);

}  // namespace bellows::scheduler
