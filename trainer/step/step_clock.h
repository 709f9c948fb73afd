// SPDX-License-Identifier: Apache-2.0
// Where the time of a step goes, on this rank.
#pragma once

#include <array>
#include <chrono>

#include "mpi_elastic/timeline.h"

namespace bellows::trainer {

/// A stop watch that is never stopped: each lap gives the time since the one before to a part of
/// the step.
class StepClock {
 public:
  using Clock = std::chrono::steady_clock;
  /// What the backward pass does not hide, from the moment at which the last gradient is handed to
  /// the reduction: kAgreement until the sum of loss and control words is there, which is begun
  /// before the last backward pass and reduced ahead of the gradients, so it takes time only
  /// where another rank had not come as far as that pass; kCommunication until all sums are there.
  enum Part { kData, kForward, kBackward, kAgreement, kCommunication, kUpdate };
  static constexpr std::array kNames{"data",      "forward",       "backward",
                                     "agreement", "communication", "update"};
  using Seconds = std::array<double, kNames.size()>;

  /// A step begins: all parts are 0.
  void begin() {
    seconds_ = {};
    begun_ = last_ = Clock::now();
  }
  Clock::time_point begun() const { return begun_; }
  void lap(Part part) { lap(part, Clock::now()); }
  /// The same for a moment that has been; one before the last lap counts as the last lap.
  void lap(Part part, Clock::time_point until) {
    if (until <= last_) return;
    if (Timeline::on()) Timeline::add(kNames[part], last_, until);
    seconds_[part] += std::chrono::duration<double>(until - last_).count();
    last_ = until;
  }
  const Seconds& seconds() const { return seconds_; }

 private:
  Seconds seconds_{};
  Clock::time_point begun_{}, last_ = Clock::now();
};

}  // namespace bellows::trainer
