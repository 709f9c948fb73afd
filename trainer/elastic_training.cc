// SPDX-License-Identifier: Apache-2.0
#include "trainer/elastic_training.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "mpi_elastic/timeline.h"
#include "trainer/adaptation/rules.h"
#include "trainer/errors.h"
#include "trainer/hash.h"
#include "trainer/signals.h"
#include "trainer/state/saved_image.h"
#include "trainer/team/device.h"
#include "trainer/team/mpi_backend.h"
#include "trainer/team/place.h"

namespace bellows::trainer {

namespace {

void set_threads(int threads) {
  at::set_num_threads(threads);
  // libtorch does not tell OpenBLAS, if that is what it calls.
  if (void* set = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))
    reinterpret_cast<void (*)(int)>(set)(threads);
}

/// A number in the environment; `otherwise` when there is none.
int number_from(const char* variable, int otherwise) {
  const char* said = std::getenv(variable);
  const int number = said != nullptr ? std::atoi(said) : 0;
  return number > 0 ? number : otherwise;
}

// --threads, else OMP_NUM_THREADS (which the launcher sets, or the user), else `share`. One where
// the bits of the result must not depend on how many ranks there are.
int threads_for(const Options& options, int share) {
  if (options.logical_ranks > 0 && options.threads == 0) return 1;
  return options.threads > 0 ? options.threads : number_from("OMP_NUM_THREADS", share);
}

/// Ends the world after all ranks know how it ends: who closes last may find others gone.
int leave(ElasticWorld& world, int code) {
  try {
    world.close();
  } catch (const MpiError&) {
    std::fflush(stdout);
    std::fflush(stderr);
    Timeline::flush();
    _exit(code);
  }
  return code;
}

}  // namespace

ElasticTraining::ElasticTraining(const Options& options, Workload& workload)
    : options_(options), workload_(workload) {}
ElasticTraining::~ElasticTraining() = default;

void ElasticTraining::load(int local_rank) {
  const TimelineSpan span("load");
  device_ = make_device(options_.device, local_rank);
  state_ = workload_.load(device_);
  report_ = std::make_unique<Report>(options_, workload_.dataset(), course_);
  policy_ = make_policy(options_);
  record_ = std::make_unique<SampleRecord>(options_.record_samples);
  loaded_ = state_.get();
}

/// All that takes long and can be done while the others still train.
void ElasticTraining::prepare_to_join() {
  set_threads(threads_for(options_, 1));
  try {
    load(local_rank());
  } catch (const UsageError& e) {
    throw SharedError(kUsage, e.what());
  } catch (const DataError& e) {
    throw SharedError(kUsage, e.what());
  }
  {
    const TimelineSpan span("warm up");
    workload_.warm_up();
  }
  const std::optional<int> image = saved_state();
  if (!image) return;
  arrival_.newcomer = !read_image(*image, *state_, course_);
  arrival_.failure = true;
  ::close(*image);
}

void ElasticTraining::save_image(int file) const {
  write_image(file, loaded_, course_);
  repeat_stop_signal();
}

int ElasticTraining::code_of(Outcome outcome) const {
  switch (outcome) {
    case Outcome::kFinished:
      return kSuccess;
    case Outcome::kStopped:
      return options_.requeue_code;
    case Outcome::kStoppedUnsaved:
      return kStopped;
    case Outcome::kChange:
      break;
  }
  return kFailure;
}

/// The first rank 0 must be able to write its files; later ones go on without.
void ElasticTraining::enter_report(Team& team) {
  const int ranks = team.rank() == 0 ? team.size() : 0;
  if (!course_.begun) {
    together(team, [&] { report_->enter(ranks); });
    return;
  }
  try {
    report_->enter(ranks);
  } catch (const UsageError& e) {
    report_->warning(e.what());
  }
}

/// Ranks that differ would train different models, or wait for each other in different places.
void ElasticTraining::require_same_options(Team& team) const {
  std::map<std::string, std::string> own = options_.common();
  for (const ParameterGroup& group : state_->optimizer->groups())
    own["lr"] += fmt::format(" {}", group.factor);
  std::string text;
  for (const auto& [name, value] : own) text += fmt::format("--{} {}\n", name, value);
  if (team.agree(hash_of(std::as_bytes(std::span(text))))) return;
  const std::vector<std::string> all = team.gather(text);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::istringstream first(all[0]), other(all[rank]);
    for (std::string a, b; std::getline(first, a) && std::getline(other, b);)
      if (a != b)
        throw SharedError(kUsage,
                          fmt::format("rank 0 has {} and rank {} has {}: all ranks need the "
                                      "same options and learning rates",
                                      a, rank, b));
  }
  throw SharedError(kUsage, "the ranks differ in their options");
}

void ElasticTraining::tell_of_change(const Gathering& gathering, ElasticWorld& world) {
  Change change;
  change.epoch = world.epoch();
  change.joined = gathering.newcomers;
  change.left =
      std::max(0, static_cast<int>(course_.ranks) + gathering.newcomers - gathering.ranks);
  change.repair = gathering.failure;
  change.bytes = gathering.bytes;
  report_->change(*state_, change);
}

Outcome ElasticTraining::train_in(ElasticWorld& world) {
  Timeline::enter(world.world(), world.epoch());
  Team plain(world.world(), torch::kCPU);
  // Every rank takes part in finding the share.
  const int threads = threads_for(options_, fair_threads(plain));
  set_threads(threads);
  together(plain, [&] {
    if (!state_) load(world.world().local_rank());
  });
  require_same_options(plain);
  std::unique_ptr<Team> accelerated;
  if (!device_.is_cpu()) accelerated = std::make_unique<Team>(world.world(), device_);
  Team& team = accelerated ? *accelerated : plain;

  const Gathering gathering = synchronise(world, arrival_, *state_, course_);
  record_->commit(state_->step, course_.committed_epoch);
  enter_report(team);
  Training training({options_, workload_, device_, *state_, course_, *report_, *record_, *policy_,
                     seconds_per_sample_},
                    team, world, gathering.nodes);
  if (!gathering.complete) training.resume();
  if (course_.begun)
    tell_of_change(gathering, world);
  else
    report_->start(*state_, device_.str(), threads);
  course_.begun = true;
  course_.ranks = gathering.ranks;
  training.begin();
  return workload_.train(training);
}

int ElasticTraining::run() {
  arrival_.newcomer = true;
  if (is_joiner() || saved_state()) {
    try {
      prepare_to_join();
    } catch (const SharedError& e) {
      fmt::print(stderr, "{}: {}\n", options_.program, e.what());
      return e.code();
    }
  }
  let_waiting_threads_yield();
  try {
    ElasticWorld world = ElasticWorld::open({[this](int file) { save_image(file); }});
    return run_in(world);
  } catch (const Dismissed&) {
    return kSuccess;
  }
}

int ElasticTraining::run_in(ElasticWorld& world) {
  while (true) {
    std::optional<MpiError> error;
    try {
      const Outcome outcome = train_in(world);
      if (outcome != Outcome::kChange) return leave(world, code_of(outcome));
    } catch (const SharedError& e) {
      if (world.world().rank() == 0) fmt::print(stderr, "{}: {}\n", options_.program, e.what());
      return leave(world, e.code());
    } catch (const MpiError& e) {
      error = e;
    }
    // Nothing that knows the old world is left here.
    arrival_ = {false, error.has_value()};
    if (!world.change(error ? &*error : nullptr)) return kSuccess;
  }
}

}  // namespace bellows::trainer
