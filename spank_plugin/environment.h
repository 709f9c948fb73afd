// SPDX-License-Identifier: Apache-2.0
// The variables by which options get from the command that makes a job into the job: ours, and
// those that Slurm makes of a plugin's options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spank_plugin/options.h"

namespace bellows::spank {

/// The variable in which sbatch and salloc hand an option on to every srun, sbatch and salloc in
/// the job: these take it as if it had been given to them.
std::string inherited_variable(const Option& option);

/// The mark that this plugin, not the user, has set a variable that stands for --no-kill; its value
/// is that variable's name.
inline constexpr const char* kNoKillMark = "BELLOWS_SET_NO_KILL";

/// Whether `name` is one of these variables: of sbatch, salloc or srun.
bool is_no_kill_variable(std::string_view name);

/// In an sbatch or salloc that is called within a job: the new job is not elastic because this one
/// is. Takes away what this one has handed on.
void forget_surrounding_job();

/// Has `command` (sbatch, salloc, srun), this process, take --no-kill for given unless it is told
/// otherwise. Of use only before it reads its environment.
void set_no_kill(std::string_view command);

/// This process's environment without the plugin's options in any form.
std::vector<std::string> environment_without_options();

}  // namespace bellows::spank
