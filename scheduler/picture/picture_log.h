// SPDX-License-Identifier: Apache-2.0
// Who had which nodes when, read from what bellowsd has written (event-file).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scheduler/cluster/cluster.h"

namespace bellows::scheduler {

struct PictureJob {
  std::string name, partition;
  std::int64_t user = -1;  // uid; below 0: not known
  bool elastic = false;
};

/// A node that a job had from then to then, Unix time.
struct PictureBar {
  JobId job = 0;
  std::string node;
  double from = 0, to = 0;
  bool open = false;  // the file ends there, not the bar
  std::string why;    // the decision that it came from, "" for none
};

struct Picture {
  double begin = 0, end = 0;       // of what the files tell
  std::vector<std::string> nodes;  // in their natural order: n2 before n10
  std::map<JobId, PictureJob> jobs;
  std::vector<PictureBar> bars;  // by node, then by time
};

/// The files in their order, as one log. `complain` gets a sentence for each line that is damaged,
/// which is left out, and one when times go backwards. Throws std::runtime_error when a file cannot
/// be read, or when there is nothing of bellowsd's in any of them.
Picture read_picture(const std::vector<std::string>& files,
                     const std::function<void(const std::string&)>& complain);

/// n2 before n10.
bool natural_less(const std::string& a, const std::string& b);

}  // namespace bellows::scheduler
