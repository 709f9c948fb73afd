// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace bellows::spank {
namespace {

// As Slurm makes them of the names of plugin and option (src/common/spank.c, _opt_env_name).
constexpr std::string_view kOptionPrefix = "_SLURM_SPANK_OPTION_bellows_";
constexpr std::string_view kInheritedPrefix = "SLURM_SPANK__SLURM_SPANK_OPTION_bellows_";

constexpr const char* kNoKillVariables[] = {"SBATCH_NO_KILL", "SALLOC_NO_KILL", "SLURM_NO_KILL"};

void forget_no_kill() {
  const char* const mark = getenv(kNoKillMark);
  if (mark == nullptr) return;
  if (is_no_kill_variable(mark)) unsetenv(mark);
  unsetenv(kNoKillMark);
}

std::string variable_of(std::string_view prefix, const Option& option) {
  std::string name(prefix);
  for (const char* c = option.name; *c != '\0'; ++c) name += *c == '-' ? '_' : *c;
  return name;
}

}  // namespace

std::string inherited_variable(const Option& option) {
  return variable_of(kInheritedPrefix, option);
}

bool is_no_kill_variable(std::string_view name) {
  return std::ranges::any_of(kNoKillVariables, [name](const char* known) { return name == known; });
}

void forget_surrounding_job() {
  forget_no_kill();
  const bool elastic = getenv(inherited_variable(option(OptionId::elastic)).c_str()) != nullptr;
  for (const Option& option : option_table()) {
    if (elastic && option.variable != nullptr) unsetenv(option.variable);
    unsetenv(inherited_variable(option).c_str());
    unsetenv(variable_of(kOptionPrefix, option).c_str());
  }
}

void set_no_kill(std::string_view command) {
  const char* variable = "SLURM_NO_KILL";
  if (command == "sbatch") variable = "SBATCH_NO_KILL";
  if (command == "salloc") variable = "SALLOC_NO_KILL";
  if (getenv(variable) != nullptr) return;
  setenv(variable, "set", 1);
  setenv(kNoKillMark, variable, 1);
}

std::vector<std::string> environment_without_options() {
  std::vector<std::string> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with(kOptionPrefix) && !text.starts_with(kInheritedPrefix))
      kept.emplace_back(text);
  }
  return kept;
}

}  // namespace bellows::spank
