// SPDX-License-Identifier: Apache-2.0
// What bellows does, from its command line to its exit code. See bellows(1).
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace bellows::scheduler {

/// 0 granted; 1 refused, or not complete in time; 2 wrong use; 3 no such job, or no answer.
int control_command(const std::vector<std::string>& arguments, std::ostream& out,
                    std::ostream& err);

}  // namespace bellows::scheduler
