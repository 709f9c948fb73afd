// SPDX-License-Identifier: Apache-2.0
// Whether a peer has been silent for too long. A process that was itself stopped (a suspended job,
// a paused virtual machine) wakes up with every peer overdue: a jump of the own clock means "I was
// away", not "they are dead".
#pragma once

#include <algorithm>
#include <chrono>

namespace bellows::elastic {

/// Of the steady clock, from an option's number of seconds.
inline std::chrono::steady_clock::duration to_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

class SilenceWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;

  explicit SilenceWatch(Duration limit, Clock::time_point now = Clock::now())
      : limit_(limit), last_tick_(now), grace_from_(now) {}

  /// To be called at regular intervals, well under the limit, before `silent`.
  void tick(Clock::time_point now = Clock::now()) {
    if (now - last_tick_ > limit_ / 2) grace_from_ = now;
    last_tick_ = now;
  }
  /// As of the last tick.
  bool silent(Clock::time_point last_heard) const {
    return last_tick_ - std::max(last_heard, grace_from_) > limit_;
  }
  /// How often to tick and to send a sign of life.
  Duration interval() const { return std::min<Duration>(limit_ / 8, std::chrono::seconds(1)); }
  Duration limit() const { return limit_; }

 private:
  Duration limit_;
  Clock::time_point last_tick_;
  Clock::time_point grace_from_;
};

}  // namespace bellows::elastic
