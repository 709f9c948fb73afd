// SPDX-License-Identifier: Apache-2.0
// A job whose sockets are on another machine: the command goes there by a step of the job, so that
// Slurm decides who may ask.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace bellows::scheduler {

/// The number of the Slurm job that is meant: of `name` ("4711", "4711.80"), else $SLURM_JOB_ID.
std::optional<std::string> slurm_job_meant(const std::optional<std::string>& name);

struct ScriptNode {
  std::string name;
  std::vector<std::string> others;  // of the job
};
/// The node where that job's script runs, by squeue; nothing when there is no Slurm or no such job,
/// and when this process has come here in this way itself, or is on that node already.
std::optional<ScriptNode> node_to_go_to(const std::string& slurm_job);

/// Whether this process was started by go_to(), as a step of the job.
bool came_by_step();

/// Becomes `srun … bellows ARGUMENTS` on that node. Returns only when srun cannot be started, with
/// the reason.
std::string go_to(const std::string& slurm_job, const ScriptNode& node,
                  const std::vector<std::string>& arguments);

}  // namespace bellows::scheduler
