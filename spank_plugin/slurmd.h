// SPDX-License-Identifier: Apache-2.0
// What the plugin does for slurmd, after the last process of a job has ended on a node.
#pragma once

#include "spank_plugin/arguments.h"
#include "spank_plugin/slurm_spank.h"

namespace bellows::spank {

/// Removes the folders that the job left on this node. Never fails the job: problems are logged.
void slurmd_job_epilog(spank_t spank, const Arguments& arguments);

}  // namespace bellows::spank
