// SPDX-License-Identifier: Apache-2.0
// bellows-train: trains a network on all ranks of a world.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "config.h"
#include "mpi_elastic/world.h"
#include "trainer/device.h"
#include "trainer/errors.h"
#include "trainer/mpi_backend.h"
#include "trainer/signals.h"
#include "trainer/training.h"

namespace bellows::trainer {

namespace {

// Before there is a world: which rank this will be. Launchers with PMIx say so.
bool is_first_rank() {
  const char* rank = std::getenv("PMIX_RANK");
  return rank == nullptr || std::strcmp(rank, "0") == 0;
}

void complain(const std::string& text) { fmt::print(stderr, "bellows-train: {}\n", text); }

// --threads, else OMP_NUM_THREADS (which the launcher sets, or the user), else a fair share. Every
// rank takes part in finding the share.
int use_threads(const Options& options, Team& team) {
  int threads = fair_threads(team);
  const char* said = std::getenv("OMP_NUM_THREADS");
  if (const int number = said != nullptr ? std::atoi(said) : 0; number > 0) threads = number;
  if (options.threads > 0) threads = options.threads;
  at::set_num_threads(threads);
  // libtorch does not tell OpenBLAS, if that is what it calls.
  if (void* set = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))
    reinterpret_cast<void (*)(int)>(set)(threads);
  return threads;
}

int train(const Options& options, const World& world) {
  Team plain(world, torch::kCPU);
  torch::Device device = torch::kCPU;
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<TrainingState> state;
  std::unique_ptr<Report> report;
  const int threads = use_threads(options, plain);
  together(plain, [&] {
    device = make_device(options.device, world.local_rank());
    dataset = open_dataset(options.data, options.length);
    state = std::make_unique<TrainingState>(options, *dataset, device);
    report = std::make_unique<Report>(options, *dataset, world.rank() == 0 ? world.size() : 0);
  });
  std::unique_ptr<Team> accelerated;
  if (!device.is_cpu()) accelerated = std::make_unique<Team>(world, device);
  Team& team = accelerated ? *accelerated : plain;

  Training training(options, *dataset, device, *state, team, *report);
  training.resume();
  report->start(*state, device.str(), threads);
  switch (training.run()) {
    case Outcome::kFinished:
      return kSuccess;
    case Outcome::kStopped:
      return options.requeue_code;
    case Outcome::kStoppedUnsaved:
      return kStopped;
  }
  return kFailure;
}

int run(int argc, char** argv) {
  catch_stop_signals();
  Options options;
  try {
    options = parse_options(argc, argv);
  } catch (const UsageError& e) {
    if (is_first_rank()) complain(e.what());
    return kUsage;
  }
  if (options.help || options.version) {
    if (is_first_rank())
      fmt::print("{}", options.help ? help_text() : "bellows-train " BELLOWS_VERSION "\n");
    return kSuccess;
  }

  if (std::getenv("PMIX_NAMESPACE") == nullptr) {
    complain("not started by a launcher; use: bellows-run [-n RANKS] bellows-train ...");
    return kUsage;
  }

  let_waiting_threads_yield();
  try {
    World world = World::open();
    int code = kFailure;
    try {
      code = train(options, world);
    } catch (const SharedError& e) {
      if (world.rank() == 0) complain(e.what());
      code = e.code();
    }
    world.close();
    return code;
  } catch (const MpiError& e) {
    // Leaving in order would mean to talk to ranks that may be dead.
    complain(e.what());
  } catch (const std::exception& e) {
    // The others cannot know: end at once, so that the launcher ends them too.
    complain(e.what());
  }
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(kFailure);
}

}  // namespace

}  // namespace bellows::trainer

int main(int argc, char** argv) { return bellows::trainer::run(argc, argv); }
