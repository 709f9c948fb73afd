// SPDX-License-Identifier: Apache-2.0
// The learning rate is a function of where the training stands: PyTorch's schedules, counted in
// steps of the base batch; warm-ups, ramps and the factors of the rules.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <sstream>

#include "trainer/adaptation/adaptation.h"
#include "trainer/adaptation/lr_rule.h"
#include "trainer/optimizer/schedule.h"

namespace bellows::trainer {
namespace {

/// A whole run on its base batch: the rate of each step.
struct Course {
  explicit Course(Options o, std::uint64_t data = 100) : options(std::move(o)), sampler(1, data) {}

  AdaptedStep step(std::int64_t batch, std::optional<MicroGradients> measured = {}) {
    const Range range = sampler.next(static_cast<std::uint64_t>(batch));
    std::span<const MicroGradients> groups;
    if (measured) groups = std::span(&*measured, 1);
    const AdaptedStep made = adapt(options, state, {batch, batch, 0}, sampler.position(),
                                   sampler.behind(range), sampler.size(), groups);
    sampler.advance(range);
    state = made.after;
    return made;
  }
  Standing standing() const {
    return trainer::standing(options, state.progress, sampler.position(), sampler.size());
  }
  std::vector<double> rates(std::int64_t batch) {
    std::vector<double> all;
    while (!limit_reached(options, standing())) all.push_back(step(batch).rate);
    return all;
  }

  Options options;
  Sampler sampler;
  Adaptation state;
};

Options with(const std::string& schedule, std::int64_t steps, std::int64_t passes = 0) {
  Options o;
  o.lr = 0.1;
  o.batch = 10;
  o.lr_schedule = schedule;
  o.steps = steps;
  o.passes = passes;
  return o;
}

TEST(ScheduleTest, IsAFunctionOfWhereTheTrainingStands) {
  Options o = with("step", 0);
  o.lr_step = 2;
  EXPECT_DOUBLE_EQ(scheduled_rate(o, {19, 1.99}, 100), 0.1);
  EXPECT_DOUBLE_EQ(scheduled_rate(o, {20, 2}, 100), 0.01);
  EXPECT_DOUBLE_EQ(scheduled_rate(o, {40, 4}, 100), 0.001);
  o = with("cosine", 0, 4);
  EXPECT_DOUBLE_EQ(scheduled_rate(o, {20, 2}, 100), 0.05);
  EXPECT_NEAR(scheduled_rate(o, {39.9, 3.99}, 100), 0, 1e-5);
}

TEST(ScheduleTest, OfTheBaseBatchStepsAreUpdatesAlsoWhereTheLastOfAPassIsShort) {
  Course run(with("constant", 0, 3), 103);
  EXPECT_EQ(run.rates(10).size(), 33);
  EXPECT_EQ(run.state.progress, 33);
  EXPECT_EQ(total_steps(run.options, 103), 33);
}

TEST(ScheduleTest, ALargerBatchGoesThroughTheScheduleInAsManySamples) {
  for (const char* schedule : {"cosine", "polynomial", "one-cycle", "step"}) {
    Course small(with(schedule, 0, 3), 120);
    Course large(with(schedule, 0, 3), 120);
    const auto fine = small.rates(10);
    const auto coarse = large.rates(30);
    ASSERT_EQ(fine.size(), 3 * coarse.size());
    for (std::size_t i = 0; i < coarse.size(); ++i)
      EXPECT_DOUBLE_EQ(coarse[i], fine[3 * i]) << schedule << " " << i;
  }
}

TEST(ScheduleTest, StepsOfALimitAreThoseOfTheBaseBatch) {
  Course run(with("constant", 12), 1000);
  EXPECT_EQ(run.rates(30).size(), 4);
}

// ---- PyTorch ------------------------------------------------------------------------------------

/// What PyTorch's `scheduler` gives for so many steps; nothing without PyTorch.
std::vector<double> torchs(const std::string& scheduler, int steps) {
  const std::string program =
      "python3 -c 'import torch, warnings\n"
      "warnings.simplefilter(\"ignore\")\n"
      "from torch.optim.lr_scheduler import *\n"
      "optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)\n"
      "scheduler = " +
      scheduler +
      "\n"
      "for _ in range(" +
      std::to_string(steps) +
      "):\n"
      "  print(repr(float(optimizer.param_groups[0][\"lr\"])))\n"
      "  optimizer.step(); scheduler.step()' 2>/dev/null";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(program.c_str(), "r"), pclose);
  std::vector<double> rates;
  double rate = 0;
  while (pipe && std::fscanf(pipe.get(), "%lf", &rate) == 1) rates.push_back(rate);
  return rates;
}

void expect_same(const std::vector<double>& ours, const std::vector<double>& theirs) {
  if (theirs.empty()) GTEST_SKIP() << "no PyTorch for Python";
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_NEAR(ours[i], theirs[i], 1e-12 + 1e-9 * theirs[i]) << "step " << i;
}

TEST(TorchScheduleTest, CosineIsCosineAnnealing) {
  expect_same(Course(with("cosine", 37)).rates(10), torchs("CosineAnnealingLR(optimizer, 37)", 37));
}

TEST(TorchScheduleTest, StepIsStepLr) {
  Options o = with("step", 90);
  o.lr_step = 2;
  o.lr_gamma = 0.3;
  // A pass is ten steps.
  expect_same(Course(o).rates(10), torchs("StepLR(optimizer, 20, gamma=0.3)", 90));
}

TEST(TorchScheduleTest, PolynomialIsPolynomialLr) {
  Options o = with("polynomial", 0, 3);
  o.lr_power = 2;
  expect_same(Course(o).rates(10), torchs("PolynomialLR(optimizer, 30, power=2)", 30));
}

TEST(TorchScheduleTest, OneCycleIsOneCycleLr) {
  expect_same(Course(with("one-cycle", 50)).rates(10),
              torchs("OneCycleLR(optimizer, 0.1, total_steps=50, cycle_momentum=False)", 50));
  Options o = with("one-cycle", 0, 4);
  o.lr_rise = 0.45;
  expect_same(
      Course(o).rates(10),
      torchs("OneCycleLR(optimizer, 0.1, total_steps=40, pct_start=0.45, cycle_momentum=False)",
             40));
}

// ---- rules --------------------------------------------------------------------------------------

TEST(LrRuleTest, TheFactorIsOneAtTheBaseBatch) {
  for (const std::string& rule : lr_rule_names()) EXPECT_EQ(lr_factor(rule, 1, 1), 1) << rule;
}

TEST(LrRuleTest, FactorsAreThoseOfThePapers) {
  EXPECT_EQ(lr_factor("none", 9, 4), 1);
  EXPECT_EQ(lr_factor("linear", 9, 4), 9);
  EXPECT_EQ(lr_factor("sqrt", 9, 4), 3);
  EXPECT_EQ(lr_factor("legw", 9, 4), 3);
  EXPECT_EQ(lr_factor("adascale", 9, 4), 4);
  EXPECT_EQ(lr_factor("adamscale", 9, 4), 2);
}

TEST(LrRuleTest, AWarmUpTakesAsManySamplesAtEveryScaleAndLegwsAsManyUpdates) {
  for (const double scale : {1.0, 4.0}) {
    Options o = with("constant", 400);
    o.warmup = 20;
    Course run(o, 100000);
    const auto batch = static_cast<std::int64_t>(10 * scale);
    std::vector<double> rates = run.rates(batch);
    for (int i = 0; i < 30; ++i)
      EXPECT_DOUBLE_EQ(rates[i], 0.1 * std::min(1.0, (i + 1) * scale / 20));
    o.lr_rule = "legw";
    rates = Course(o, 100000).rates(batch);
    for (int i = 0; i < 30; ++i)
      EXPECT_DOUBLE_EQ(rates[i], 0.1 * std::sqrt(scale) * std::min(1.0, (i + 1) / 20.0));
  }
}

TEST(LrRuleTest, AfterAChangeTheFactorGoesOverInEqualParts) {
  Options o = with("constant", 1000);
  o.lr_rule = "linear";
  o.lr_ramp = 4;
  Course run(o, 100000);
  EXPECT_DOUBLE_EQ(run.step(10).rate, 0.1);
  for (const double expected : {1.5, 2.0, 2.5, 3.0, 3.0})
    EXPECT_DOUBLE_EQ(run.step(30).rate, 0.1 * expected);
  EXPECT_DOUBLE_EQ(run.step(20).rate, 0.275);
  // A change on the way goes on from where the factor is.
  EXPECT_DOUBLE_EQ(run.step(10).rate, 0.1 * (2.75 + (1 - 2.75) / 4));
  o.lr_ramp = 0;
  Course at_once(o, 100000);
  at_once.step(10);
  EXPECT_DOUBLE_EQ(at_once.step(30).rate, 0.3);
}

TEST(LrRuleTest, ARunThatBeginsWithAnotherScaleHasNoRamp) {
  Options o = with("constant", 1000);
  o.lr_rule = "sqrt";
  EXPECT_DOUBLE_EQ(Course(o).step(40).rate, 0.2);
}

TEST(LrRuleTest, AChangeThatNoStepWasMadeWithLeavesNoTrace) {
  Options o = with("constant", 1000);
  o.lr_rule = "linear";
  Course one(o, 100000), other(o, 100000);
  for (int i = 0; i < 3; ++i) one.step(10), other.step(10);
  const Range lost = one.sampler.next(90);
  adapt(o, one.state, {90, 90, 0}, one.sampler.position(), one.sampler.behind(lost), 100000, {});
  EXPECT_EQ(one.step(30).rate, other.step(30).rate);
  EXPECT_EQ(one.state, other.state);
}

// ---- gain ---------------------------------------------------------------------------------------

// A scale of 4 with as much noise as signal: gain 2 / (1/4 + 1).
const MicroGradients kAsMuchNoise{2, 1.25 * 4 / 4 + 0.25, 1.25, 4};

TEST(GainTest, ProgressAndLimitsCountWhatStepsAreWorth) {
  ASSERT_EQ(estimate_noise(kAsMuchNoise)->square, 1);
  ASSERT_EQ(estimate_noise(kAsMuchNoise)->variance, 1);
  Options o = with("constant", 16);
  o.lr_rule = "adascale";
  Course run(o, 100000);
  int updates = 0;
  while (!limit_reached(o, run.standing())) {
    const AdaptedStep made = run.step(40, kAsMuchNoise);
    EXPECT_NEAR(made.gain, 1.6, 1e-12);
    EXPECT_NEAR(made.rate, 0.16, 1e-12);
    ++updates;
  }
  EXPECT_EQ(updates, 10);
  EXPECT_NEAR(run.state.progress, 16, 1e-9);
}

TEST(GainTest, PassesAreThoseOfTheBaseBatch) {
  Options o = with("constant", 0, 2);
  o.lr_rule = "adascale";
  Course run(o, 400);  // a pass is 40 steps
  int updates = 0;
  while (!limit_reached(o, run.standing())) updates += run.step(40, kAsMuchNoise).scale == 4;
  EXPECT_EQ(updates, 50);
  EXPECT_EQ(run.sampler.position().pass, 5);
}

TEST(GainTest, WhereNothingIsKnownAStepIsWorthOne) {
  Options o = with("constant", 3);
  o.lr_rule = "adascale";
  Course run(o, 100000);
  EXPECT_EQ(run.rates(10), std::vector<double>(3, 0.1));
}

// Each group of parameters has the factor of its own gain, as in AdaptDL; progress counts the gain
// of all.
TEST(AdaScaleTest, GroupsHaveRatesByTheirOwnNoise) {
  for (const bool adam : {false, true}) {
    Options o = with("constant", 10);
    o.lr = 0.1;
    o.batch = 10;
    o.lr_rule = adam ? "adamscale" : "adascale";
    Adaptation state;
    const Sampler sampler(1, 1000);
    // |G|^2 and tr(C) / B0 of 4 and 8, 1 and 27; scale 4.
    const std::vector<MicroGradients> groups{{2, 4 + 2 * 8 / 4.0, 4 + 8 / 4.0, 4},
                                             {2, 1 + 2 * 27 / 4.0, 1 + 27 / 4.0, 4}};
    const AdaptedStep made = adapt(o, state, {40, 40, 0}, {0, 0}, {0, 40}, sampler.size(), groups);
    const auto factor = [&](double gain) { return adam ? std::sqrt(gain) : gain; };
    EXPECT_NEAR(made.gain, 40 / (35 / 4.0 + 5), 1e-12);
    EXPECT_NEAR(made.rate, 0.1 * factor(made.gain), 1e-12);
    EXPECT_NEAR(made.rates[0], 0.1 * factor(12 / (8 / 4.0 + 4)), 1e-12);
    EXPECT_NEAR(made.rates[1], 0.1 * factor(28 / (27 / 4.0 + 1)), 1e-12);
    EXPECT_NEAR(made.after.progress, made.gain, 1e-12);
  }
}

}  // namespace
}  // namespace bellows::trainer
