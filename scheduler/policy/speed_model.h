// SPDX-License-Identifier: Apache-2.0
// How fast a job would be with another number of nodes, from the sizes that it has had.
#pragma once

#include <map>

#include "scheduler/policy/policy.h"

namespace bellows::scheduler {

/// Samples per second with n nodes by Amdahl's law, s(n) = 1 / (a/n + b), a, b >= 0: least squares
/// on the seconds per sample. One size known: b = 0, as fast as can be hoped for. None: 1 sample
/// per second and node.
class SpeedModel {
 public:
  explicit SpeedModel(const std::map<int, Speed>& measured);
  /// Samples per second; n >= 1.
  double speed(int nodes) const;
  /// What each of `more` further nodes brings, relative to the mean of the `nodes` first:
  /// (s(n+k) - s(n)) / k over s(n) / n. From 0 to 1.
  double gain(int nodes, int more) const;

 private:
  double per_node_ = 1;  // a: seconds per sample and node
  double fixed_ = 0;     // b
};

}  // namespace bellows::scheduler
