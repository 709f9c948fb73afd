// SPDX-License-Identifier: Apache-2.0
// The cluster by libslurm's public calls. They block for as long as MessageTimeout says, and may
// end the process when Slurm's configuration cannot be read: only for a process that can be done
// without.
#pragma once

#include <memory>

#include "scheduler/cluster/cluster.h"

namespace bellows::scheduler {

/// Reads slurm.conf. Jobs and nodes are asked for only as far as they have changed.
std::unique_ptr<Cluster> slurm_cluster();

}  // namespace bellows::scheduler
