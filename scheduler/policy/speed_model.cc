// SPDX-License-Identifier: Apache-2.0
#include "scheduler/policy/speed_model.h"

#include <algorithm>

namespace bellows::scheduler {

SpeedModel::SpeedModel(const std::map<int, Speed>& measured) {
  double count = 0, x = 0, y = 0, xx = 0, xy = 0;  // x = 1/n, y = seconds per sample
  for (const auto& [nodes, speed] : measured) {
    if (nodes < 1 || speed.samples_per_second <= 0) continue;
    const double share = 1.0 / nodes, seconds = 1.0 / speed.samples_per_second;
    count += 1;
    x += share;
    y += seconds;
    xx += share * share;
    xy += share * seconds;
  }
  if (count == 0) return;
  const double spread = count * xx - x * x;
  double slope = count > 1 && spread > 1e-12 ? (count * xy - x * y) / spread : xy / xx;
  double rest = count > 1 ? (y - slope * x) / count : 0;
  if (slope < 0) {  // more nodes were slower: nothing is to be gained
    slope = 0;
    rest = y / count;
  } else if (rest < 0) {
    rest = 0;
    slope = xy / xx;
  }
  per_node_ = slope;
  fixed_ = rest;
}

double SpeedModel::speed(int nodes) const { return 1 / (per_node_ / std::max(nodes, 1) + fixed_); }

double SpeedModel::gain(int nodes, int more) const {
  const double now = speed(nodes);
  return (speed(nodes + more) - now) / more / (now / nodes);
}

}  // namespace bellows::scheduler
