// SPDX-License-Identifier: Apache-2.0
// What the plugin does in sbatch, salloc and srun, with the rights of the user who calls them:
// it checks the options, hands them to the job, and has a resize request carried out.
#pragma once

#include "spank_plugin/arguments.h"
#include "spank_plugin/options.h"

namespace bellows::spank {

/// Before Slurm reads any option.
void client_init(bool allocator);

/// An option was given. Throws ValueError when its value, or the option, cannot be taken here.
void client_option(const Option& option, const char* value, bool allocator);

/// All options (of one component of a heterogeneous job) are known, and there is no job or step
/// yet. Ends the process if they do not go together: Slurm itself would go on when the plugin is
/// optional. Has a resize request carried out, and if that is refused ends srun with the exit code
/// of `bellows`. It is not left until srun has its step: that might have to wait for the very
/// nodes that are asked for, and Slurm keeps a step that was made and never started.
void client_check(const Arguments& arguments, bool allocator);

}  // namespace bellows::spank
