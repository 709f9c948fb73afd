// SPDX-License-Identifier: Apache-2.0
// Which batch makes the most progress per second: the throughput of a batch times what its samples
// are worth (Qiao et al., "Pollux", OSDI 2021, section 3).
#pragma once

#include <cstdint>

#include "trainer/adaptation/throughput.h"

namespace bellows::trainer {

/// How a step is worked through.
struct Configuration {
  std::int64_t micro_batch = 0;   // samples per rank and pass
  std::int64_t accumulation = 0;  // passes before the last
  std::int64_t batch(int ranks) const { return ranks * micro_batch * (accumulation + 1); }
  bool operator==(const Configuration&) const = default;
};

/// What configurations are chosen among. 0: no bound.
struct BatchBounds {
  std::int64_t max_batch = 0;
  std::int64_t micro_batch_least = 0;
  std::int64_t micro_batch_most = 0;
};

/// What is known of a training.
struct Goodput {
  ThroughputModel model;
  double square = 0;    // of the mean gradient
  double variance = 0;  // of the gradient of the base batch
  std::int64_t base_batch = 1;

  /// Samples per second, each counted for what it is worth compared with those of the base batch.
  double operator()(int nodes, int ranks, const Configuration& with) const;
  /// The best of batches from the base batch to the bound, a fixed ratio apart, each in the least
  /// number of passes; with one rank in two at least beyond the base batch, since gradient noise is
  /// measured between passes.
  Configuration best(int nodes, int ranks, const BatchBounds& bounds) const;
  /// `best`, or `present` unless that promises more than 5 % less.
  Configuration choose(int nodes, int ranks, const BatchBounds& bounds,
                       const Configuration& present) const;
};

}  // namespace bellows::trainer
