// SPDX-License-Identifier: Apache-2.0
// The model of step times: what it says of configurations that it has not seen, and the batch that
// is chosen by it.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "trainer/adaptation/goodput.h"

namespace bellows::trainer {
namespace {

const ThroughputModel kTrue{0.02, 0.001, 0.06, 0.004, 0.01, 0.0015, 2.5};

/// What the true model says, with errors of some percent.
StepTimes seen(int nodes, int ranks, double micro_batch, std::mt19937& random, double error) {
  std::normal_distribution<double> draw(0, error);
  return {nodes, ranks, micro_batch, kTrue.accumulate_seconds(micro_batch) * std::exp(draw(random)),
          kTrue.optimize_seconds(nodes, ranks, micro_batch) * std::exp(draw(random))};
}

TEST(ThroughputModelTest, AddsUpAsInThePaper) {
  EXPECT_DOUBLE_EQ(kTrue.accumulate_seconds(30), 0.05);
  EXPECT_DOUBLE_EQ(kTrue.network_seconds(2, 6), 0.076);
  EXPECT_DOUBLE_EQ(kTrue.network_seconds(1, 6), 0.016);
  const double last = std::pow(std::pow(0.05, 2.5) + std::pow(0.076, 2.5), 1 / 2.5);
  EXPECT_NEAR(kTrue.optimize_seconds(2, 6, 30), last, 1e-12);
  EXPECT_NEAR(kTrue.step_seconds(2, 6, 30, 3), 0.15 + last, 1e-12);
  EXPECT_NEAR(kTrue.throughput(2, 6, 30, 3), 720 / (0.15 + last), 1e-9);
  EXPECT_NEAR(kTrue.optimize_seconds(1, 1, 30), 0.05, 1e-7);
  ThroughputModel slow_update = kTrue;
  slow_update.update = 0.5;
  EXPECT_NEAR(slow_update.step_seconds(2, 6, 30, 3), 0.65 + last, 1e-12);
}

TEST(ThroughputFitTest, TakesTheUpdateAsItIsSeen) {
  // Of two ranks only: what an update takes is none of their communication.
  std::mt19937 random(1);
  std::vector<StepTimes> times;
  for (const double micro_batch : {8.0, 24.0, 64.0}) {
    times.push_back(seen(1, 2, micro_batch, random, 0));
    times.back().update_seconds = 0.04;
  }
  const ThroughputModel model = fit_throughput(times);
  EXPECT_DOUBLE_EQ(model.update, 0.04);
  EXPECT_NEAR(model.step_seconds(1, 1, 24, 0), kTrue.accumulate_seconds(24) + 0.04, 0.002);
  times.back().update_seconds = -1;
  EXPECT_THROW(fit_throughput(times), std::invalid_argument);
}

TEST(ThroughputFitTest, PredictsConfigurationsItHasNotSeen) {
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U}) {
    std::mt19937 random(seed);
    std::vector<StepTimes> times;
    for (const double micro_batch : {8.0, 24.0, 64.0})
      for (const auto& [nodes, ranks] : {std::pair{1, 1}, {1, 2}, {1, 4}, {2, 4}, {3, 9}, {4, 16}})
        times.push_back(seen(nodes, ranks, micro_batch, random, 0.03));
    const ThroughputModel model = fit_throughput(times);
    for (const double micro_batch : {12.0, 48.0, 128.0})
      for (const auto& [nodes, ranks] : {std::pair{1, 3}, {1, 8}, {2, 8}, {3, 12}, {8, 32}})
        for (const std::int64_t accumulation : {0, 3})
          EXPECT_NEAR(model.step_seconds(nodes, ranks, micro_batch, accumulation) /
                          kTrue.step_seconds(nodes, ranks, micro_batch, accumulation),
                      1, 0.1)
              << "seed " << seed << ": " << nodes << " nodes, " << ranks << " ranks, "
              << micro_batch;
  }
}

TEST(ThroughputFitTest, OfExactTimesIsExact) {
  std::mt19937 random(1);
  std::vector<StepTimes> times;
  for (const double micro_batch : {8.0, 24.0, 64.0})
    for (const int ranks : {1, 2, 4, 8}) times.push_back(seen(1, ranks, micro_batch, random, 0));
  const ThroughputModel model = fit_throughput(times);
  EXPECT_NEAR(model.alpha_c, kTrue.alpha_c, 0.02 * kTrue.alpha_c);
  EXPECT_NEAR(model.beta_c, kTrue.beta_c, 0.02 * kTrue.beta_c);
  EXPECT_NEAR(model.step_seconds(1, 6, 32, 0) / kTrue.step_seconds(1, 6, 32, 0), 1, 0.01);
}

TEST(ThroughputFitTest, TakesForCheapWhatNobodyHasSeen) {
  const ThroughputModel one = fit_throughput(std::vector<StepTimes>{{1, 1, 32, 0.05, 0.05}});
  EXPECT_NEAR(one.alpha_c, 0.025, 1e-6);
  EXPECT_NEAR(one.accumulate_seconds(32), 0.05, 1e-4);
  EXPECT_LT(one.network_seconds(4, 16), 1e-5);

  const ThroughputModel two = fit_throughput(std::vector<StepTimes>{
      {1, 1, 32, 0.05, 0.05}, {1, 2, 32, 0.05, 0.09}, {1, 2, 16, 0.03, 0.07}});
  EXPECT_GT(two.network_seconds(1, 2), 0.01);
  EXPECT_NEAR(two.network_seconds(1, 8), two.network_seconds(1, 2), 1e-5);
  EXPECT_GE(two.network_seconds(2, 8), 1.1 * two.network_seconds(1, 8) - 1e-7);
}

TEST(ThroughputFitTest, RefusesWhatAreNoTimes) {
  EXPECT_THROW(fit_throughput({}), std::invalid_argument);
  EXPECT_THROW(fit_throughput(std::vector<StepTimes>{{1, 1, 32, 0, 0.05}}), std::invalid_argument);
  EXPECT_THROW(fit_throughput(std::vector<StepTimes>{{1, 1, 32, 0.05, NAN}}),
               std::invalid_argument);
  EXPECT_THROW(fit_throughput(std::vector<StepTimes>{{3, 2, 32, 0.05, 0.05}}),
               std::invalid_argument);
}

// ---- the best batch -----------------------------------------------------------------------------

TEST(GoodputTest, GrowsTheBatchWithTheNoise) {
  const BatchBounds bounds{4096, 0, 0};
  std::int64_t before = 0;
  for (const double variance : {0.01, 1.0, 10.0, 100.0}) {
    const Goodput goodput{kTrue, 1, variance, 64};
    const std::int64_t batch = goodput.best(2, 8, bounds).batch(8);
    EXPECT_GE(batch, before);
    before = batch;
  }
  EXPECT_GT(before, 1000);
  EXPECT_LE((Goodput{kTrue, 1, 0.01, 64}.best(2, 8, bounds).batch(8)), 80);
}

TEST(GoodputTest, IsTheBestOfAllThereAre) {
  const Goodput goodput{kTrue, 1, 10, 64};
  double highest = 0;
  for (std::int64_t micro = 8; micro <= 40; ++micro)
    for (std::int64_t more = 0; more <= 12; ++more) {
      const Configuration with{micro, more};
      if (with.batch(8) >= 64 && with.batch(8) <= 2000)
        highest = std::max(highest, goodput(2, 8, with));
    }
  const Configuration best = goodput.best(2, 8, {2000, 8, 40});
  EXPECT_GE(best.micro_batch, 8);
  EXPECT_LE(best.micro_batch, 40);
  EXPECT_LE(best.batch(8), 2000);
  EXPECT_GT(goodput(2, 8, best), 0.97 * highest);
}

TEST(GoodputTest, OneRankWorksInTwoPassesBeyondTheBaseBatch) {
  const Goodput goodput{kTrue, 1, 1000, 64};
  const Configuration best = goodput.best(1, 1, {4096, 0, 0});
  EXPECT_GT(best.batch(1), 64);
  EXPECT_EQ(best.accumulation, 1);
  EXPECT_EQ((goodput.best(1, 1, {64, 0, 0})), (Configuration{64, 0}));
}

TEST(GoodputTest, ChangesOnlyForMoreThanFivePercent) {
  const Goodput goodput{kTrue, 1, 10, 64};
  const BatchBounds bounds{4096, 0, 0};
  const Configuration best = goodput.best(2, 8, bounds);
  Configuration near = best;
  near.micro_batch += 3;
  ASSERT_GT(goodput(2, 8, near), 0.96 * goodput(2, 8, best));
  EXPECT_EQ(goodput.choose(2, 8, bounds, near), near);
  EXPECT_EQ(goodput.choose(2, 8, bounds, {8, 0}), best);
  EXPECT_EQ(goodput.choose(2, 8, bounds, {}), best);
}

}  // namespace
}  // namespace bellows::trainer
