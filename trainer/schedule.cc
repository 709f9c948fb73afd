// SPDX-License-Identifier: Apache-2.0
#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace bellows::trainer {

double learning_rate(const Options& options, std::int64_t step, Position position,
                     std::uint64_t samples) {
  double rate = options.lr;
  if (step < options.warmup)
    rate *= static_cast<double>(step + 1) / static_cast<double>(options.warmup);
  if (options.lr_schedule == "step") {
    const auto drops = static_cast<std::int64_t>(position.pass) / options.lr_step;
    rate *= std::pow(options.lr_gamma, static_cast<double>(drops));
  } else if (options.lr_schedule == "cosine") {
    const double passes = static_cast<double>(position.pass) +
                          static_cast<double>(position.offset) / static_cast<double>(samples);
    double done = 0;
    if (options.passes > 0) done = passes / static_cast<double>(options.passes);
    if (options.steps > 0)
      done = std::max(done, static_cast<double>(step) / static_cast<double>(options.steps));
    rate *= 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, done)));
  }
  return rate;
}

}  // namespace bellows::trainer
