// SPDX-License-Identifier: Apache-2.0
// What a job that died left on a node: the folders bellows-UID-JOB-* of its agents.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace bellows::spank {

/// The job that is over, and its owner.
struct EndedJob {
  uid_t uid;
  gid_t gid;
  std::uint32_t id;
};

struct Removal {
  int removed = 0;  ///< folders that are gone, with all that was in them
  std::string
      problems;  ///< what could not be removed and why, one line each; empty if all went well
};

/// Removes the job's folders from each of `folders` (those that do not exist are skipped).
///
/// The work is done by a child process with the rights of the job's owner, never with ours, because
/// the owner may have put anything into these folders. No symbolic link is followed, no other file
/// system entered. After `seconds` the child is ended and the removal given up; a child stuck in
/// the kernel is left to itself.
Removal remove_leftovers(const EndedJob& job, const std::vector<std::string>& folders, int seconds);

}  // namespace bellows::spank
