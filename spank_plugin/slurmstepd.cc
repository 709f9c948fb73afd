// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/slurmstepd.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "spank_plugin/checks.h"
#include "spank_plugin/environment.h"

namespace bellows::spank {
namespace {

// Of job steps that are none of srun's (slurm/slurm.h).
constexpr std::uint32_t kBatchScript = 0xfffffffb;
constexpr std::uint32_t kInteractive = 0xfffffffa;

GivenOptions& arrived() {
  static GivenOptions options;
  return options;
}

std::optional<std::string> variable(spank_t spank, const char* name) {
  char value[kLongestValue + 1];
  if (spank_getenv(spank, name, value, sizeof value) != ESPANK_SUCCESS) return std::nullopt;
  return std::string(value);
}

/// One process of the job is enough to tell the user something.
bool speaks_for_job(spank_t spank) {
  std::uint32_t step = 0;
  return spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
         (step == kBatchScript || step == kInteractive);
}

void tell(spank_t spank, const std::string& message) {
  if (!message.empty() && speaks_for_job(spank)) slurm_spank_log("bellows: %s", message.c_str());
}

/// Nothing if it is not known.
std::optional<int> number_of_nodes(spank_t spank) {
  const auto nodes = variable(spank, "SLURM_JOB_NUM_NODES");
  try {
    return nodes ? std::optional<int>(parse_number(*nodes, 1, kMostNodes)) : std::nullopt;
  } catch (const ValueError&) {
    return std::nullopt;
  }
}

void set(spank_t spank, OptionId id, const std::string& value, int overwrite = 1) {
  spank_setenv(spank, option(id).variable, value.c_str(), overwrite);
}

void set_environment(spank_t spank, const Arguments& arguments) {
  for (const Option& option : option_table()) {
    const auto& value = arrived()[option.id];
    if (!value || option.variable == nullptr) continue;
    const std::string normal = parse_option(option, value->c_str());
    if (option.id != OptionId::elastic) {
      set(spank, option.id, normal);
      continue;
    }
    const StartedJob job{number_of_nodes(spank),
                         variable(spank, "SLURM_JOB_PARTITION").value_or("")};
    const Admitted admitted = admit(parse_bounds(normal), job, arguments);
    tell(spank, admitted.note);
    if (!admitted.bounds) {
      for (const Option& other : option_table())
        if (other.variable != nullptr) spank_unsetenv(spank, other.variable);
      return;
    }
    set(spank, OptionId::elastic, admitted.bounds->text());
    set(spank, OptionId::mode, arguments.mode, 0);
    if (arguments.grace) set(spank, OptionId::grace, std::to_string(*arguments.grace), 0);
  }
}

/// `sbatch --export=NAME` keeps the options from the batch script, but not their inherited form.
void take_inherited(spank_t spank) {
  for (const Option& option : option_table()) {
    if (option.variable == nullptr || arrived()[option.id]) continue;
    if (auto value = variable(spank, inherited_variable(option).c_str()))
      arrived().set(option.id, *std::move(value));
  }
}

/// What was set for the command that made the job is not meant for those in it.
void forget_no_kill(spank_t spank) {
  const auto mark = variable(spank, kNoKillMark);
  if (!mark) return;
  if (is_no_kill_variable(*mark)) spank_unsetenv(spank, mark->c_str());
  spank_unsetenv(spank, kNoKillMark);
}

}  // namespace

void stepd_option(const Option& option, const char* value) {
  const std::size_t length = value == nullptr ? 0 : strnlen(value, kLongestValue + 1);
  // One character more than can be good, so that it is refused when it is looked at.
  arrived().set(option.id, std::string(value == nullptr ? "" : value, length));
}

void stepd_task(spank_t spank, const Arguments& arguments) {
  forget_no_kill(spank);
  take_inherited(spank);
  if (!arrived().any_of_job()) return;
  try {
    set_environment(spank, arguments);
  } catch (const ValueError& error) {
    slurm_spank_log("bellows: %s; the job is not elastic", error.what());
    for (const Option& option : option_table())
      if (option.variable != nullptr) spank_unsetenv(spank, option.variable);
  }
}

}  // namespace bellows::spank
