// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/elastic_world.h"

#include <pmix.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "mpi_elastic/fault_point.h"
#include "mpi_elastic/rank_control.h"
#include "mpi_elastic/timeline.h"

namespace bellows {
using elastic::Place;
using elastic::RankControl;
using elastic::Stage;
using protocol::Message;

namespace {

// The launcher decides what becomes of a change that takes long; these are for the case that it
// does not.
constexpr std::chrono::seconds kJoinLimit(3600);
constexpr std::chrono::seconds kChangeLimit(120);
constexpr std::chrono::seconds kReleaseLimit(3600);
constexpr std::chrono::seconds kNextEpochLimit(5);

// Sessions do not end PMIx as often as they begin it, and a process has one identity at a time.
void end_pmix() {
  for (int i = 0; i < 16 && PMIx_Initialized() != 0; ++i) PMIx_Finalize(nullptr, 0);
}

void take_identity(const Place& place) {
  for (const std::string& variable : place.environment) {
    const std::size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
}

}  // namespace

class ElasticWorld::Impl {
 public:
  explicit Impl(std::unique_ptr<RankControl> with) : control(std::move(with)) {}

  void enter_first() {
    if (!control) {
      world.emplace(World::open());
      return;
    }
    const bool is_first = !is_joiner() && !saved_state();
    elastic::fault_point("loaded");
    control->send(Message(is_first ? "elastic" : "ready"));
    elastic::fault_point("ready");
    if (!is_first && !control->wait_for_change(kJoinLimit)) {
      throw ElasticError("not taken into the world within an hour; is bellows-run alive?");
    }
    // The environment is that of the first epoch, which may be over before it is entered.
    if (is_first && !control->change_wanted() && try_to_enter(Place{1, {}})) return;
    if (!enter_newest()) throw Dismissed("told to leave before the world was entered");
  }

  bool change(const MpiError* cause) {
    if (!control) {
      if (cause != nullptr) throw *cause;
      throw ElasticError("this world cannot change: it was not started by bellows-run --elastic");
    }
    elastic::fault_point("change");
    if (cause != nullptr) tell_trouble(cause->what());
    wait_for_change(cause);
    leave_present();
    return enter_newest();
  }

  /// The launcher: about the ranks of this epoch.
  void ask(const char* what, int number) const {
    if (!control) return;
    Message request("request");
    request.head[what] = number;
    request.head["epoch"] = control->epoch();
    control->send(request);
  }

  void close() {
    if (!world) return;
    if (control) control->set_stage(Stage::closing, control->epoch());
    world->close();
    if (control) control->set_stage(Stage::outside, control->epoch());
  }

  std::unique_ptr<RankControl> control;
  std::optional<World> world;

 private:
  void tell_trouble(const std::string& text) {
    Message trouble("trouble");
    trouble.head["epoch"] = control->epoch();
    trouble.head["text"] = text;
    control->send(trouble);
  }

  void wait_for_change(const MpiError* cause) {
    const TimelineSpan span("wait for a new world");
    if (control->wait_for_change(kChangeLimit)) return;
    if (cause != nullptr) throw *cause;
    throw ElasticError("no newer world was declared within " +
                       std::to_string(kChangeLimit.count()) + " s");
  }

  void leave_present() {
    Timeline::flush();
    const TimelineSpan span("leave the world");
    control->set_stage(Stage::closing, control->epoch());
    Message left("left");
    left.head["epoch"] = control->epoch();
    control->send(left);
    elastic::fault_point("left");
    try {
      if (world) world->close();
    } catch (const MpiError&) {  // with the dead there is no leaving in order
    }
    world.reset();
    end_pmix();
    elastic::fault_point("closed");
  }

  /// Enters the newest epoch, or one that is declared while this one fails to form. False when
  /// this process may go: until the world without it stands, it may be the last to hold the state.
  bool enter_newest() {
    while (!control->released()) {
      if (const std::optional<Place> place = control->take_place()) {
        if (try_to_enter(*place)) return true;
      } else if (control->leaving()) {
        const TimelineSpan span("hold the state for others");
        if (!control->wait_for_place(kReleaseLimit)) {
          throw ElasticError("told to leave, but not released within an hour");
        }
      } else {
        wait_for_change(nullptr);
      }
    }
    control->set_stage(Stage::outside, control->epoch());
    Timeline::flush();
    return false;
  }

  bool try_to_enter(const Place& place) {
    try {
      enter(place);
      return true;
    } catch (const MpiError& failed) {
      tell_trouble(failed.what());
      // After a session that broke as it began, Open MPI fails in all later ones.
      if (!failed.is_failure_of_a_peer()) {
        control->set_stage(Stage::outside, place.epoch);
        control->wait_for_change(kNextEpochLimit);
        control->replace_process();
      }
      leave_present();
      return false;
    }
  }

  void enter(const Place& place) {
    const TimelineSpan span("enter the world");
    control->set_stage(Stage::entering, place.epoch);
    take_identity(place);
    elastic::fault_point("entering");
    world.emplace(World::open());
    control->set_stage(Stage::inside, place.epoch);
    Message entered("entered");
    entered.head["epoch"] = place.epoch;
    control->send(entered);
    elastic::fault_point("entered");
  }
};

ElasticWorld::ElasticWorld(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ElasticWorld::ElasticWorld(ElasticWorld&&) noexcept = default;
ElasticWorld& ElasticWorld::operator=(ElasticWorld&&) noexcept = default;
ElasticWorld::~ElasticWorld() {
  // In order the others would take its end for the program's decision, and wait for it where they
  // are.
  if (impl_ && impl_->world && std::uncaught_exceptions() > 0)
    static_cast<void>(std::make_unique<World>(std::move(*impl_->world)).release());
}

ElasticWorld ElasticWorld::open(Settings settings) {
  auto impl = std::make_unique<Impl>(RankControl::from_environment(std::move(settings.save)));
  impl->enter_first();
  return ElasticWorld(std::move(impl));
}

const World& ElasticWorld::world() const { return *impl_->world; }
std::uint32_t ElasticWorld::epoch() const { return impl_->control ? impl_->control->epoch() : 1; }
bool ElasticWorld::elastic() const { return impl_->control != nullptr; }
bool ElasticWorld::change_wanted() const {
  return impl_->control && impl_->control->change_wanted();
}
bool ElasticWorld::change(const MpiError* cause) { return impl_->change(cause); }

void ElasticWorld::report(const Progress& progress) {
  if (impl_->control) impl_->control->set_progress(progress);
}

std::optional<std::pair<int, int>> ElasticWorld::rank_bounds() const {
  const char* said = std::getenv(elastic::kBoundsVariable);
  int least = 0, most = 0;
  if (!impl_->control || said == nullptr || std::sscanf(said, "%d-%d", &least, &most) != 2 ||
      least < 1 || most < least) {
    return std::nullopt;
  }
  return std::pair(least, most);
}

void ElasticWorld::ask_for(int ranks) { impl_->ask("resize", ranks); }
void ElasticWorld::ask_to_leave(int rank) { impl_->ask("leave", rank); }

void ElasticWorld::close() { impl_->close(); }

ElasticWorld::Update::Update(ElasticWorld& world) : world_(world) {
  if (world_.impl_->control) world_.impl_->control->update_mutex().lock();
}
ElasticWorld::Update::~Update() {
  if (!world_.impl_->control) return;
  world_.impl_->control->update_mutex().unlock();
  world_.impl_->control->note_in_step();
}

bool is_joiner() { return std::getenv(elastic::kJoinerVariable) != nullptr; }

std::optional<int> saved_state() {
  const char* said = std::getenv(elastic::kStateVariable);
  if (said == nullptr) return std::nullopt;
  return std::atoi(said);
}

}  // namespace bellows
