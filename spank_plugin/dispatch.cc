// SPDX-License-Identifier: Apache-2.0
// Slurm's callbacks, each handed on to the file of the place where it runs. Nothing is thrown into
// Slurm: a problem becomes a line in its log and an error code.
#include <array>
#include <exception>
#include <string>
#include <vector>

#include "spank_plugin/arguments.h"
#include "spank_plugin/client.h"
#include "spank_plugin/options.h"
#include "spank_plugin/slurm_spank.h"
#include "spank_plugin/slurmd.h"
#include "spank_plugin/slurmstepd.h"

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
using bellows::spank::Option;

/// Slurm takes only a negative result for a failure.
constexpr int kFailed = -1;

bool in_allocator() { return spank_context() == S_CTX_ALLOCATOR; }
bool in_client() { return in_allocator() || spank_context() == S_CTX_LOCAL; }

/// Calls `handle`, whose exceptions become an error code.
template <typename Handler>
int guarded(Handler handle) {
  try {
    handle();
    return ESPANK_SUCCESS;
  } catch (const bellows::spank::ArgumentError& error) {
    slurm_error("bellows: plugstack.conf: %s", error.what());
  } catch (const std::exception& error) {
    slurm_error("bellows: %s", error.what());
  }
  return kFailed;
}

/// Parses the arguments and calls `handle` with them.
template <typename Handler>
int dispatch(int count, char* words[], Handler handle) {
  return guarded([&] {
    const std::vector<std::string> list(words, words + count);
    handle(bellows::spank::parse_arguments(list));
  });
}

/// Slurm's callback for each option; `number` is its row in the table.
int take_option(int number, const char* value, int remote) {
  return guarded([&] {
    const Option& option = bellows::spank::option_table()[static_cast<std::size_t>(number)];
    if (remote != 0)
      bellows::spank::stepd_option(option, value);
    else
      bellows::spank::client_option(option, value, in_allocator());
  });
}

/// Slurm copies the table, whose texts it declares, but does not use, as changeable.
void register_options(spank_t spank) {
  int number = 0;
  for (const Option& option : bellows::spank::option_table()) {
    spank_option row{const_cast<char*>(option.name),
                     const_cast<char*>(option.value),
                     const_cast<char*>(option.help),
                     static_cast<int>(option.takes),
                     number++,
                     take_option};
    spank_option_register(spank, &row);
  }
}

}  // namespace

extern "C" {

// Everywhere: a mistake in plugstack.conf is told at once, not when a job has ended.
BELLOWS_EXPORT int slurm_spank_init(spank_t spank, int count, char* words[]) {
  return dispatch(count, words, [spank](const Arguments&) {
    if (!in_client() && spank_context() != S_CTX_REMOTE) return;
    register_options(spank);
    if (in_client()) bellows::spank::client_init(in_allocator());
  });
}

BELLOWS_EXPORT int slurm_spank_init_post_opt(spank_t, int count, char* words[]) {
  return dispatch(count, words, [](const Arguments& arguments) {
    if (in_client()) bellows::spank::client_check(arguments, in_allocator());
  });
}

BELLOWS_EXPORT int slurm_spank_task_init(spank_t spank, int count, char* words[]) {
  return dispatch(count, words, [spank](const Arguments& arguments) {
    bellows::spank::stepd_task(spank, arguments);
  });
}

BELLOWS_EXPORT int slurm_spank_job_epilog(spank_t spank, int count, char* words[]) {
  return dispatch(count, words, [spank](const Arguments& arguments) {
    bellows::spank::slurmd_job_epilog(spank, arguments);
  });
}
}
