// SPDX-License-Identifier: Apache-2.0
// One change of a job's allocation, from the request to ranks that take steps on new nodes, or to
// nodes that are Slurm's again. What does not come true is rolled back: no node stays with the job
// for nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scheduler/broker/desk.h"
#include "scheduler/command/size_request.h"

namespace bellows::scheduler {

struct ResizeReport {
  std::vector<std::string> added, removed;
  std::vector<std::string> remarks;  // "node n4 was given back: its agent did not start"
  std::string how;                   // "expansion", "companion job 17 in spot"; of a growth
  Seconds allocation{0};             // Slurm's part
  Seconds agents{0}, warm_up{0}, join{0};
  Seconds leave{0}, give_back{0};  // of a shrinking
  int nodes = 0;                   // that the job has now
};

/// Puts what was done into the job's events: nodes that were granted, nodes that Slurm has back.
void note_changes(Desk& desk, const ResizeReport& report, const std::string& text);

/// "" or why to stop waiting for nodes: the job ends, a newer request has come. Called often.
using StopWaiting = std::function<std::string()>;

/// Sees to it that the job has what is asked for. `component`: which of a het job's allocations
/// grows. Throws Refused, with everything as it was before (or on its way to be).
ResizeReport resize(Desk& desk, const SizeRequest& request, std::size_t component, Time deadline,
                    const StopWaiting& stop);

ResizeReport grow(Desk& desk, NodeRequest nodes, std::size_t component, Time deadline,
                  const StopWaiting& stop);
ResizeReport shrink(Desk& desk, const std::vector<std::string>& nodes, Time deadline);

}  // namespace bellows::scheduler
