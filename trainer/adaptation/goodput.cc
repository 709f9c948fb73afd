// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/goodput.h"

#include <algorithm>
#include <cmath>

#include "trainer/adaptation/gradient_noise.h"

namespace bellows::trainer {

namespace {

// 5 % apart at the bound of AdaptDL's usual factor of ten.
constexpr int kCandidates = 50;
constexpr double kWorthChanging = 1.05;

std::int64_t over(std::int64_t count, std::int64_t parts) { return (count + parts - 1) / parts; }

}  // namespace

double Goodput::operator()(int nodes, int ranks, const Configuration& with) const {
  const double scale = static_cast<double>(with.batch(ranks)) / static_cast<double>(base_batch);
  return model.throughput(nodes, ranks, static_cast<double>(with.micro_batch), with.accumulation) *
         efficiency(square, variance, scale);
}

Configuration Goodput::best(int nodes, int ranks, const BatchBounds& bounds) const {
  const std::int64_t least = std::max<std::int64_t>(1, bounds.micro_batch_least);
  const std::int64_t first = std::max(base_batch, ranks * least);
  const std::int64_t last = std::max(first, bounds.max_batch > 0 ? bounds.max_batch : base_batch);
  const std::int64_t most = bounds.micro_batch_most > 0 ? bounds.micro_batch_most : last;
  Configuration best;
  double highest = -1;
  for (int i = 0; i < kCandidates; ++i) {
    const double ratio = static_cast<double>(last) / static_cast<double>(first);
    const auto batch = static_cast<std::int64_t>(
        std::llround(static_cast<double>(first) * std::pow(ratio, i / (kCandidates - 1.0))));
    const std::int64_t share = over(batch, ranks);
    std::int64_t passes = over(share, most);
    if (ranks == 1 && batch > base_batch) passes = std::max<std::int64_t>(2, passes);
    Configuration candidate{std::max(least, over(share, passes)), passes - 1};
    // Rounding up may go beyond a bound that is no multiple of the ranks.
    if (bounds.max_batch > 0 && candidate.batch(ranks) > last && candidate.micro_batch > least)
      --candidate.micro_batch;
    const double value = (*this)(nodes, ranks, candidate);
    if (value > highest) {
      highest = value;
      best = candidate;
    }
  }
  return best;
}

Configuration Goodput::choose(int nodes, int ranks, const BatchBounds& bounds,
                              const Configuration& present) const {
  const Configuration other = best(nodes, ranks, bounds);
  if (present.micro_batch <= 0) return other;
  return (*this)(nodes, ranks, other) > kWorthChanging * (*this)(nodes, ranks, present) ? other
                                                                                        : present;
}

}  // namespace bellows::trainer
