// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/adaptation.h"

#include <span>

#include "trainer/adaptation/lr_rule.h"
#include "trainer/optimizer/schedule.h"

namespace bellows::trainer {

AdaptedStep adapt(const Options& options, const Adaptation& before, const BatchPlan& plan,
                  Position begin, Position end, std::uint64_t samples,
                  std::span<const MicroGradients> measured) {
  AdaptedStep step{before};
  Adaptation& after = step.after;
  add(after.noise, measured);
  const std::span<const NoiseAverages> noise(after.noise);
  step.scale = static_cast<double>(plan.batch) / static_cast<double>(options.batch);
  step.gain = gain(noise, step.scale);

  const double factor = lr_factor(options.lr_rule, step.scale, step.gain);
  if (plan.batch != before.batch) {
    after.ramp_from = before.batch == 0 ? factor : before.factor;
    after.ramp_start = before.progress;
  }
  after.factor =
      ramped_factor(options.lr_rule, after.ramp_from, factor, static_cast<double>(options.lr_ramp),
                    before.progress - after.ramp_start, step.scale);
  step.rate =
      scheduled_rate(options, standing(options, before.progress, begin, samples), samples) *
      warm_up(options.lr_rule, static_cast<double>(options.warmup), before.progress, step.scale) *
      after.factor * after.policy_factor;
  for (std::size_t group = 0; group < kNoiseGroups; ++group) {
    step.rates[group] = step.rate;
    if (!counts_gain(options.lr_rule) || step.rate == 0) continue;
    const double own = gain(noise.subspan(group, 1), step.scale);
    step.rates[group] *= lr_factor(options.lr_rule, step.scale, own) / factor;
  }

  // The last batch of a pass may be short, and then is worth what one of the base batch would be.
  const double worth = steps_to(options, end, samples) - steps_to(options, begin, samples);
  after.progress += counts_gain(options.lr_rule) ? gain(noise, worth) : worth;
  after.batch = plan.batch;
  after.micro_batch = plan.micro_batch;
  after.accumulation = plan.accumulation;
  after.rate = step.rate;
  return step;
}

Situation situation(const Options& options, const Adaptation& now, int nodes, int ranks) {
  Situation at;
  at.progress = now.progress;
  at.ranks = ranks;
  at.nodes = nodes;
  at.base_batch = options.batch;
  at.rank_batch = now.rank_batch;
  at.batch = now.batch;
  at.micro_batch = now.micro_batch;
  at.accumulation = now.accumulation;
  at.micro_batch_most = options.micro_batch_most;
  if (now.fits > 0 && (at.micro_batch_most == 0 || now.fits < at.micro_batch_most))
    at.micro_batch_most = now.fits;
  at.learning_rate = now.rate;
  at.lr_factor = now.policy_factor;
  const std::span<const NoiseAverages> noise(now.noise);
  const auto base = static_cast<double>(options.batch);
  at.noise_estimates = now.noise.front().estimates;
  at.gradient_square = mean_gradient_square(noise);
  at.gradient_variance = gradient_variance(noise);
  at.noise_scale = noise_scale(noise, base);
  if (now.batch > 0) at.gain = gain(noise, static_cast<double>(now.batch) / base);
  at.times = now.profile.times();
  for (const StepTimes& times : at.times)
    if (times.nodes == nodes && times.ranks == ranks &&
        static_cast<std::int64_t>(times.micro_batch) == now.micro_batch)
      at.samples_per_second = static_cast<double>(now.batch) /
                              (static_cast<double>(now.accumulation) * times.accumulate_seconds +
                               times.optimize_seconds + times.update_seconds);
  return at;
}

}  // namespace bellows::trainer
