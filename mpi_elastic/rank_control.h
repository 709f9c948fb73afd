// SPDX-License-Identifier: Apache-2.0
// A rank's connection to its agent, and the thread that listens to it: news of epochs, signs of
// life, and the watch over a program that is stuck in MPI while a newer epoch waits.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/message.h"
#include "protocol/size_hints.h"

namespace bellows {
struct Progress;
}

namespace bellows::elastic {

/// Where the program's own thread is; see the diagram in elastic_world.h.
enum class Stage { outside, entering, inside, closing };

/// This process in an epoch: the variables that make it known to MPI.
struct Place {
  std::uint32_t epoch = 0;
  std::vector<std::string> environment;  // NAME=value
};

class RankControl {
 public:
  using Save = std::function<void(int file)>;

  /// By the variable that the agent sets. Null when there is none: no launcher that could change
  /// the world. `save` as in ElasticWorld::Settings.
  static std::unique_ptr<RankControl> from_environment(Save save);
  ~RankControl();
  RankControl(const RankControl&) = delete;
  RankControl& operator=(const RankControl&) = delete;

  /// Never blocks for long and never fails: an agent that is gone takes this process along.
  void send(const protocol::Message& message);

  /// True when a newer epoch than that of the present stage is known, or the order to leave.
  bool change_wanted() const { return leaving_ || newest_ > epoch_; }
  /// In no later world, unless it is called back: it holds its state until it is released, or has a
  /// place again.
  bool leaving() const { return leaving_; }
  /// The others have a world without this process.
  bool released() const { return released_; }
  /// Waits until change_wanted(); false when the limit is over.
  bool wait_for_change(std::chrono::duration<double> limit);
  /// Waits for a place in a newer epoch, or to be released; false when the limit is over.
  bool wait_for_place(std::chrono::duration<double> limit);
  /// The newest place, if it is of a later epoch than the present one.
  std::optional<Place> take_place();

  /// Starts this process's program anew, with the state that `save` writes; ends the process where
  /// that is not possible.
  [[noreturn]] void replace_process();

  void set_stage(Stage stage, std::uint32_t epoch);
  std::uint32_t epoch() const { return epoch_; }
  /// While it is held, the process is not replaced.
  std::mutex& update_mutex() { return update_; }
  /// The program has got through an update in this epoch: it holds the state.
  void note_in_step();
  void set_progress(const Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  RankControl(int fd, Save save);
  void listen();
  void receive(const protocol::Message& message);
  void answer_ping();
  void watch();

  const int fd_;
  const Save save_;
  std::mutex send_mutex_;
  mutable std::mutex mutex_;  // guards place_ and what the condition is about
  std::condition_variable changed_;
  Place place_;
  Clock::time_point place_since_;
  std::atomic<bool> place_urgent_ = false;  // somebody has died: do not wait for a step's end
  std::atomic<std::uint32_t> newest_ = 0;   // epoch of place_
  std::atomic<bool> leaving_ = false, released_ = false;
  std::atomic<bool> replacing_ = false;
  std::atomic<Stage> stage_ = Stage::outside;
  std::atomic<Clock::rep> stage_since_ = 0;
  std::atomic<std::uint32_t> epoch_ = 0;
  std::atomic<std::uint32_t> in_step_ = 0;  // newest epoch of which it was said
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<double> speed_ = 0, samples_left_ = -1, learning_rate_ = -1;
  std::atomic<std::int64_t> batch_ = 0;
  std::atomic<std::uint32_t> progress_epoch_ = 0;  // in which it was reported
  std::optional<SizeHints> hints_;                 // likewise; guarded by mutex_
  std::mutex update_;
  std::atomic<bool> closing_ = false;
  bool sigterm_blocked_ = false;
  std::thread thread_;
};

/// The variables' names, for the agent and for the process that replaces itself.
inline constexpr char kControlVariable[] = "BELLOWS_CONTROL_FD";
inline constexpr char kJoinerVariable[] = "BELLOWS_JOINER";
inline constexpr char kStateVariable[] = "BELLOWS_STATE_FD";
/// Set by bellows-run --elastic: "LEAST-MOST" ranks.
inline constexpr char kBoundsVariable[] = "BELLOWS_ELASTIC_RANKS";
inline constexpr char kSignalsVariable[] = "BELLOWS_SIGNALS_FD";

}  // namespace bellows::elastic
