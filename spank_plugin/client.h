// SPDX-License-Identifier: Apache-2.0
// What the plugin does in sbatch, salloc and srun, with the rights of the user who calls them:
// it checks the options, hands them to the job, and has a resize request carried out.
#pragma once

#include "spank_plugin/arguments.h"
#include "spank_plugin/options.h"
#include "spank_plugin/slurm_spank.h"

namespace bellows::spank {

/// Before Slurm reads any option.
void client_init(bool allocator);

/// An option was given. Throws ValueError when its value, or the option, cannot be taken here.
void client_option(const Option& option, const char* value, bool allocator);

/// All options (of one component of a heterogeneous job) are known, and there is no job yet. Ends
/// the process if they do not go together: Slurm itself would go on when the plugin is optional.
void client_check(const Arguments& arguments, bool allocator);

/// srun knows its job. Carries out a resize request; if it is refused, ends srun with the exit code
/// of `bellows`, and the step does not start.
void client_job_known(spank_t spank, const Arguments& arguments);

}  // namespace bellows::spank
