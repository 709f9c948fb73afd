// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/profile.h"

#include <algorithm>
#include <cmath>

namespace bellows::trainer {

namespace {

// Means are taken as they come before so many steps.
constexpr std::int64_t kTrusted = 5;
constexpr double kOutlier = 3;

double mean_with(double mean, double value, std::int64_t steps) {
  if (steps > kTrusted) value = std::min(value, kOutlier * mean);
  return mean + (value - mean) / static_cast<double>(std::min(steps, Profile::kMemory));
}

}  // namespace

void Profile::add(const StepTimes& seen) {
  if (!(seen.accumulate_seconds > 0 && seen.optimize_seconds > 0 && seen.update_seconds >= 0) ||
      !std::isfinite(seen.accumulate_seconds + seen.optimize_seconds + seen.update_seconds))
    return;
  const auto micro_batch = static_cast<std::int64_t>(seen.micro_batch);
  auto place = std::find_if(entries.begin(), entries.end(), [&](const ProfileEntry& entry) {
    return entry.steps > 0 && entry.nodes == seen.nodes && entry.ranks == seen.ranks &&
           entry.micro_batch == micro_batch;
  });
  if (place == entries.end()) {
    place = std::min_element(entries.begin(), entries.end(),
                             [](const auto& a, const auto& b) { return a.last < b.last; });
    *place = {.nodes = seen.nodes, .ranks = seen.ranks, .micro_batch = micro_batch};
  }
  place->last = ++steps;
  ++place->steps;
  place->accumulate_seconds =
      mean_with(place->accumulate_seconds, seen.accumulate_seconds, place->steps);
  place->optimize_seconds = mean_with(place->optimize_seconds, seen.optimize_seconds, place->steps);
  place->update_seconds = mean_with(place->update_seconds, seen.update_seconds, place->steps);
}

std::vector<StepTimes> Profile::times() const {
  std::vector<StepTimes> all;
  for (const ProfileEntry& entry : entries)
    if (entry.steps >= kEnough)
      all.push_back({static_cast<int>(entry.nodes), static_cast<int>(entry.ranks),
                     static_cast<double>(entry.micro_batch), entry.accumulate_seconds,
                     entry.optimize_seconds, entry.update_seconds});
  return all;
}

}  // namespace bellows::trainer
