// SPDX-License-Identifier: Apache-2.0
// What the plugin does in slurmstepd, which runs as root: it keeps what arrives as it is, and looks
// at it only in the process of a task, which has given up root's rights for the user's for good.
#pragma once

#include "spank_plugin/arguments.h"
#include "spank_plugin/options.h"
#include "spank_plugin/slurm_spank.h"

namespace bellows::spank {

/// An option arrived with the step. Keeps it; nothing is read of it but its length.
void stepd_option(const Option& option, const char* value);

/// As the user, before the task's program: checks the options and sets the task's environment. A
/// value that cannot be right is said and left out; the task starts anyway.
void stepd_task(spank_t spank, const Arguments& arguments);

}  // namespace bellows::spank
