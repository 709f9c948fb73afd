// SPDX-License-Identifier: Apache-2.0
// How a batch is divided among ranks that are not equally fast: in proportion to their measured
// speed, so that all are done with their share at the same time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/sampler.h"
#include "trainer/options/options.h"

namespace bellows::trainer {

/// equal, speed.
const std::vector<std::string>& share_names();

/// Whether the ranks' speeds are measured: for their shares, or to find stragglers.
bool times_ranks(const Options& options);

/// The part of `whole` that `rank` takes by these weights, which need not add up to one. The parts
/// cover `whole` exactly, and each is within one sample of its weight's.
Range weighted_share(Range whole, int rank, std::span<const double> weights);

/// The weights of the ranks of one world. Each step brings the time per sample of each rank, the
/// same numbers on all ranks, so all have the same weights without talking.
///
/// Speeds are the medians of a window of steps, all made with the same weights, so nothing lags
/// behind. New weights are taken only where they promise more than chance could make of equal ones:
/// a step shorter by kChance / sqrt(steps of the window). Windows double as long as speeds stay,
/// and are short again after a plain change, so shares come to rest. That they converge without
/// swinging: where a share of m samples takes a + b m seconds, weights in proportion to m / (a + b
/// m) move each share towards the common time by a part of the way, never beyond it. Where a
/// dominates, they stop short of the best. A weight is from 1 / kMost to kMost times that of an
/// equal share.
class Shares {
 public:
  /// `seconds` per sample of each rank, as an earlier world has found them; 0: not known, which
  /// counts as the mean of the others. With `balance` off all shares stay equal.
  Shares(bool balance, std::vector<double> seconds);

  const std::vector<double>& weights() const { return weights_; }
  /// Seconds per sample of each rank in the step that is done (0: made none), which had `batch`
  /// samples. True when the weights have changed.
  bool add(std::span<const double> seconds, std::uint64_t batch);
  /// As of the last full window; 0 where none was seen.
  const std::vector<double>& seconds() const { return seconds_; }
  /// The rank that has taken more than kStraggles times as long per sample as the median of the
  /// others in each of the last kPersistent windows; -1: none. The slowest of several.
  int straggler() const;
  /// How many times as long as the median of the others.
  double slowness(int rank) const;

  static constexpr double kChance = 0.3;
  static constexpr double kPlain = 1.3;
  static constexpr double kMost = 8;
  static constexpr double kStraggles = 2;
  static constexpr int kPersistent = 3;
  static constexpr std::size_t kWindow = 8, kLongestWindow = 128;

 private:
  void end_window();
  bool rebalance(std::vector<double> seconds, double worth, std::uint64_t batch);
  std::vector<double> medians(std::size_t last) const;

  bool balance_;
  std::vector<double> seconds_;
  std::vector<double> weights_;
  std::vector<std::vector<double>> window_;  // of each rank
  std::size_t steps_ = 0;                    // in the window
  std::size_t length_ = kWindow;
  std::vector<int> slow_windows_;  // one after the other, of each rank
};

}  // namespace bellows::trainer
