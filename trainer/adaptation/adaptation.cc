// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/adaptation.h"

#include <span>

#include "trainer/adaptation/lr_rule.h"
#include "trainer/schedule.h"

namespace bellows::trainer {

AdaptedStep adapt(const Options& options, const Adaptation& before, const BatchPlan& plan,
                  Position begin, Position end, std::uint64_t samples,
                  const std::optional<MicroGradients>& measured) {
  AdaptedStep step{before};
  Adaptation& after = step.after;
  if (measured) after.noise.add(*measured);
  const std::span<const NoiseAverages> noise(&after.noise, 1);
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
      after.factor;

  // The last batch of a pass may be short, and then is worth what one of the base batch would be.
  const double worth = steps_to(options, end, samples) - steps_to(options, begin, samples);
  after.progress += counts_gain(options.lr_rule) ? gain(noise, worth) : worth;
  after.batch = plan.batch;
  after.micro_batch = plan.micro_batch;
  return step;
}

}  // namespace bellows::trainer
