// SPDX-License-Identifier: Apache-2.0
// Slurm's callbacks, each handed on to the file of the place where it runs. Nothing is thrown into
// Slurm: a problem becomes a line in its log and an error code.
#include <exception>
#include <string>
#include <vector>

#include "spank_plugin/arguments.h"
#include "spank_plugin/slurm_spank.h"
#include "spank_plugin/slurmd.h"

#define BELLOWS_EXPORT __attribute__((visibility("default")))

extern "C" {
// In C++ a constant is seen by other files, and by Slurm, only if it is declared so.
BELLOWS_EXPORT extern const char plugin_name[];
BELLOWS_EXPORT extern const char plugin_type[];
BELLOWS_EXPORT extern const unsigned int plugin_version;
BELLOWS_EXPORT extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(bellows, 1)
}

namespace {

using bellows::spank::Arguments;

/// Slurm takes only a negative result for a failure.
constexpr int kFailed = -1;

/// Parses the arguments and calls `handle` with them.
template <typename Handler>
int dispatch(int count, char* words[], Handler handle) {
  try {
    const std::vector<std::string> list(words, words + count);
    return handle(bellows::spank::parse_arguments(list));
  } catch (const bellows::spank::ArgumentError& error) {
    slurm_error("bellows: plugstack.conf: %s", error.what());
    return kFailed;
  } catch (const std::exception& error) {
    slurm_error("bellows: %s", error.what());
    return kFailed;
  }
}

}  // namespace

extern "C" {

// Everywhere: a mistake in plugstack.conf is told at once, not when a job has ended.
BELLOWS_EXPORT int slurm_spank_init(spank_t, int count, char* words[]) {
  return dispatch(count, words, [](const Arguments&) -> int { return ESPANK_SUCCESS; });
}

BELLOWS_EXPORT int slurm_spank_job_epilog(spank_t spank, int count, char* words[]) {
  return dispatch(count, words, [spank](const Arguments& arguments) {
    return bellows::spank::slurmd_job_epilog(spank, arguments);
  });
}
}
