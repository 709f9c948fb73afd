// SPDX-License-Identifier: Apache-2.0
// A disk that fails on demand: the calls that change files pass through here in the programs this
// is linked into, and the chosen one fails, writes less than asked, or kills the process.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

namespace bellows::checkpoint::faults {

struct Plan {
  int at = 0;                 ///< which call, from 1; 0: none
  int code = ENOSPC;          ///< errno of the call that fails
  bool and_after = false;     ///< all calls after it fail too
  bool kill = false;          ///< SIGKILL instead, half a write done
  bool short_writes = false;  ///< each write does a part only, every third is interrupted
};

void arm(const Plan& plan);
/// Gives the names of the calls since arm(), in order: "pwrite", "fsync", "rename", ...
std::vector<std::string> disarm();

}  // namespace bellows::checkpoint::faults
