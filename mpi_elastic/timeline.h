// SPDX-License-Identifier: Apache-2.0
// What each rank did when, in a file that trace viewers open (Perfetto, chrome://tracing): the JSON
// array format of Chrome's trace events. All ranks append to one file, a line per event, many lines
// by one write; it needs no end, so it can be read while the program runs and after it was killed.
//
//   bellows::Timeline::open("trace.json");                    // before the world; else all is off
//   ElasticWorld world = ElasticWorld::open();
//   bellows::Timeline::enter(world.world(), world.epoch());   // in each world
//   { bellows::TimelineSpan span("forward"); … }              // a bar on the track of this rank
//
// One timeline for the process, since what is to be seen happens in many layers and threads. While
// it is off a span costs the look at a flag.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "mpi_elastic/world.h"

namespace bellows {

class Timeline {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;

  /// From now on events are recorded. An existing file is added to. When it holds `most_bytes`, or
  /// 64 KiB for each rank more, all that comes is dropped. Throws std::runtime_error naming the
  /// file and the reason.
  static void open(const std::string& file, std::uint64_t most_bytes = kMostBytes);
  /// Records nothing from now on, or goes on with it: for some steps of many. What begins or ends
  /// meanwhile is left out. Where the timeline was not opened nothing happens.
  static void pause(bool paused);
  static bool on() { return on_.load(std::memory_order_relaxed); }

  /// This process is a rank of that world: names its track. Ranks on other machines than rank 0
  /// find out by some messages how far their clocks are apart, and allow for it. Collective where
  /// the timeline is on, which it must be on all ranks or none. Throws MpiError.
  static void enter(const World& world, std::uint32_t epoch);

  /// A bar on this thread's part of the track. `bytes` are shown with it unless 0. Thread-safe.
  static void add(const std::string& name, Clock::time_point begin, Clock::time_point end,
                  std::uint64_t bytes = 0);
  /// What this thread's part is called.
  static void name_thread(const char* name);

  /// Events are kept for a second, or until there are many. Writes them now; to be called before
  /// the process ends by _exit or exec. Where another thread is about to write nothing is done.
  static void flush();

 private:
  static std::atomic<bool> on_;
};

/// From its making to its end.
class TimelineSpan {
 public:
  explicit TimelineSpan(const char* name, std::uint64_t bytes = 0) : name_(name), bytes_(bytes) {
    if (Timeline::on()) begin_ = Timeline::Clock::now();
  }
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;
  ~TimelineSpan() {
    if (begin_ != Timeline::Clock::time_point())
      Timeline::add(name_, begin_, Timeline::Clock::now(), bytes_);
  }

 private:
  const char* name_;
  std::uint64_t bytes_;
  Timeline::Clock::time_point begin_{};
};

}  // namespace bellows
