// SPDX-License-Identifier: Apache-2.0
// bellows-train: trains a network on all ranks of a world.
#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "config.h"
#include "mpi_elastic/timeline.h"
#include "trainer/elastic_training.h"
#include "trainer/errors.h"
#include "trainer/network/network_workload.h"
#include "trainer/signals.h"
#include "trainer/team/place.h"
#include "trainer/torch_error.h"

namespace bellows::trainer {

namespace {

void complain(const std::string& text) { fmt::print(stderr, "bellows-train: {}\n", text); }

int run(int argc, char** argv) {
  catch_stop_signals();
  Options options;
  try {
    options = parse_options(argc, argv);
  } catch (const UsageError& e) {
    complain_before_world(options.program, e.what());
    return kUsage;
  }
  if (options.help || options.version) {
    if (is_first_process())
      fmt::print("{}", options.help ? help_text() : "bellows-train " BELLOWS_VERSION "\n");
    return kSuccess;
  }

  if (!has_launcher()) {
    complain("not started by a launcher; use: bellows-run [-n RANKS] bellows-train ...");
    return kUsage;
  }

  if (!options.timeline.empty()) {
    try {
      Timeline::open(options.timeline, static_cast<std::uint64_t>(options.timeline_mb * (1 << 20)));
    } catch (const std::runtime_error& e) {
      complain_before_world(options.program, std::string("--") + e.what());
      return kUsage;
    }
  }

  try {
    NetworkWorkload network(options);
    return ElasticTraining(options, network).run();
  } catch (const MpiError& e) {
    // Leaving in order would mean to talk to ranks that may be dead.
    complain(e.what());
  } catch (const std::exception& e) {
    // The others cannot know: end at once, so that the launcher ends them too.
    complain(text_of(e));
  }
  std::fflush(stdout);
  std::fflush(stderr);
  Timeline::flush();
  _exit(kFailure);
}

}  // namespace

}  // namespace bellows::trainer

int main(int argc, char** argv) { return bellows::trainer::run(argc, argv); }
