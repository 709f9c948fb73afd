// SPDX-License-Identifier: Apache-2.0
#include "trainer/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trainer/adaptation/lr_rule.h"

namespace bellows::trainer {

namespace {

// Sums of many parts of steps round.
constexpr double kSlack = 1e-6;

double half_cosine(double from, double to, double done) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * done));
}

double part(double at, double begin, double end) {
  return end > begin ? std::clamp((at - begin) / (end - begin), 0.0, 1.0) : 1;
}

double one_cycle(double step, double total, double rise) {
  constexpr double kStart = 1.0 / 25, kEnd = kStart / 1e4;
  const double peak = rise * total - 1;
  if (step <= peak) return half_cosine(kStart, 1, part(step, 0, peak));
  return half_cosine(1, kEnd, part(step, peak, total - 1));
}

}  // namespace

double steps_per_pass(const Options& options, std::uint64_t samples) {
  return std::ceil(static_cast<double>(samples) / static_cast<double>(options.batch));
}

double steps_to(const Options& options, Position position, std::uint64_t samples) {
  return static_cast<double>(position.pass) * steps_per_pass(options, samples) +
         static_cast<double>(position.offset) / static_cast<double>(options.batch);
}

Standing standing(const Options& options, double steps, Position position, std::uint64_t samples) {
  if (counts_gain(options.lr_rule))
    return {steps, (steps + kSlack) / steps_per_pass(options, samples)};
  return {steps, static_cast<double>(position.pass) +
                     static_cast<double>(position.offset) / static_cast<double>(samples)};
}

bool limit_reached(const Options& options, const Standing& at) {
  return (options.steps > 0 && at.steps >= static_cast<double>(options.steps) - kSlack) ||
         (options.passes > 0 && at.passes >= static_cast<double>(options.passes));
}

double share_done(const Options& options, const Standing& at) {
  double done = 0;
  if (options.passes > 0) done = at.passes / static_cast<double>(options.passes);
  if (options.steps > 0) done = std::max(done, at.steps / static_cast<double>(options.steps));
  return std::min(1.0, done);
}

double total_steps(const Options& options, std::uint64_t samples) {
  double total = static_cast<double>(options.steps);
  if (options.passes > 0) {
    const double passes = static_cast<double>(options.passes) * steps_per_pass(options, samples);
    total = total > 0 ? std::min(total, passes) : passes;
  }
  return total;
}

double scheduled_rate(const Options& options, const Standing& at, std::uint64_t samples) {
  const std::string& schedule = options.lr_schedule;
  double factor = 1;
  if (schedule == "step")
    factor = std::pow(options.lr_gamma,
                      std::floor(std::floor(at.passes) / static_cast<double>(options.lr_step)));
  else if (schedule == "cosine")
    factor = half_cosine(1, 0, share_done(options, at));
  else if (schedule == "polynomial")
    factor = std::pow(1 - part(at.steps, 0, total_steps(options, samples)), options.lr_power);
  else if (schedule == "one-cycle")
    factor = one_cycle(at.steps, total_steps(options, samples), options.lr_rise);
  return options.lr * factor;
}

}  // namespace bellows::trainer
