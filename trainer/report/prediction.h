// SPDX-License-Identifier: Apache-2.0
// What the trainer's model of step times (trainer/adaptation/throughput.h), fitted to the sizes
// that were measured, expects of these and of other sizes.
#pragma once

#include <optional>
#include <vector>

#include "trainer/adaptation/throughput.h"
#include "trainer/report/scaling.h"

namespace bellows::report {

struct Prediction {
  int nodes = 1, ranks = 1;
  double batch = 0;
  double step_seconds = 0;
  double speed = 0;  // samples per second
  double rank_seconds_per_sample = 0;
};

struct Predictions {
  trainer::ThroughputModel model;
  double error = 0;                    // the largest relative error of a step's time
  std::vector<Prediction> sizes = {};  // of 1, 2, 3, ... ranks
  Prediction fastest = {}, cheapest = {};
  /// The size, and the batch up to --max-batch, with most progress per second (Qiao et al., OSDI
  /// 2021), where the runs have measured gradient noise: `goodput` is samples of the base batch per
  /// second that would make as much.
  std::optional<Prediction> most_goodput = {};
  double goodput = kUnknown;
};

/// Nothing without two sizes whose steps are divided into parts. Up to four times the largest size;
/// where no two nodes or no more than two ranks were measured, what more would cost is not known:
/// up to the largest. Batches are as in what was measured: the same for all (strong, mixed), or of
/// a rank (weak); passes have at most as many samples as the largest that was measured, and nodes
/// as many ranks as the fullest.
std::optional<Predictions> predict(const Scaling& scaling);

}  // namespace bellows::report
