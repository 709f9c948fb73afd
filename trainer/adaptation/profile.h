// SPDX-License-Identifier: Apache-2.0
// Step times by what they were measured with; kept in the state of a training, so that what one
// world has seen serves the next.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/adaptation/throughput.h"

namespace bellows::trainer {

/// As bytes part of the state of a training: whole words only.
struct ProfileEntry {
  std::int64_t nodes = 0;
  std::int64_t ranks = 0;
  std::int64_t micro_batch = 0;
  std::int64_t steps = 0;  // seen; 0: the place is free
  std::int64_t last = 0;   // when it was seen last, in steps of the whole profile
  double accumulate_seconds = 0;
  double optimize_seconds = 0;
  double update_seconds = 0;
  bool operator==(const ProfileEntry&) const = default;
};

struct Profile {
  static constexpr std::size_t kPlaces = 48;
  std::array<ProfileEntry, kPlaces> entries{};
  std::int64_t steps = 0;
  bool operator==(const Profile&) const = default;

  /// One step. The means go over about the last kMemory steps of a kind; a time of more than three
  /// times the mean counts as three times. What was seen longest ago makes room. Times that are
  /// not positive numbers are left out.
  void add(const StepTimes& seen);
  /// Of all kinds that were seen at least kEnough times.
  std::vector<StepTimes> times() const;

  static constexpr std::int64_t kMemory = 100;
  static constexpr std::int64_t kEnough = 3;
};

}  // namespace bellows::trainer
