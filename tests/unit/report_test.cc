// SPDX-License-Identifier: Apache-2.0
// The arithmetic of reports.
#include <gtest/gtest.h>

#include "trainer/report/scaling.h"
#include "trainer/report/statistics.h"

namespace bellows::report {
namespace {

TEST(Spread, IsThatOfEqualWeights) {
  const Spread spread = spread_of({{4, 1}, {1, 1}, {3, 1}, {2, 1}});
  EXPECT_DOUBLE_EQ(spread.median, 2.5);
  EXPECT_DOUBLE_EQ(spread.low, 1.5);
  EXPECT_DOUBLE_EQ(spread.high, 3.5);
  EXPECT_DOUBLE_EQ(spread.count, 4);
}

TEST(Spread, OneValueIsAll) {
  const Spread spread = spread_of({{7, 10}, {NAN, 5}});
  EXPECT_DOUBLE_EQ(spread.low, 7);
  EXPECT_DOUBLE_EQ(spread.median, 7);
  EXPECT_DOUBLE_EQ(spread.high, 7);
  EXPECT_DOUBLE_EQ(spread.count, 10);
}

TEST(Spread, AnOutlierOfLittleWeightSaysLittle) {
  EXPECT_LT(spread_of({{1, 50}, {1.1, 49}, {1000, 1}}).high, 1.11);
}

TEST(Spread, OfNothingIsZero) { EXPECT_EQ(spread_of({{INFINITY, 1}}).count, 0); }

TEST(Amdahl, IsFoundAgain) {
  for (const double serial : {0.0, 0.01, 0.3, 1.0}) {
    std::map<int, double> seconds;
    for (const int n : {1, 2, 4, 16}) seconds[n] = 5 * (serial + (1 - serial) / n);
    const auto [found, error] = fit_amdahl(seconds);
    EXPECT_NEAR(found, serial, 1e-9);
    EXPECT_NEAR(error, 0, 1e-9);
  }
}

TEST(Amdahl, StaysWithinItsBounds) {
  EXPECT_DOUBLE_EQ(fit_amdahl({{1, 1}, {2, 2}, {4, 3}}).first, 1);      // slower with each rank
  EXPECT_DOUBLE_EQ(fit_amdahl({{1, 1}, {2, 0.4}, {4, 0.1}}).first, 0);  // better than ideal
  EXPECT_GT(fit_amdahl({{1, 1}, {2, 0.4}, {4, 0.1}}).second, 0.1);
}

TEST(Gustafson, IsFoundAgain) {
  for (const double serial : {0.0, 0.2, 1.0}) {
    std::map<int, double> speedup;
    for (const int n : {1, 2, 8}) speedup[n] = n - serial * (n - 1);
    EXPECT_NEAR(fit_gustafson(speedup), serial, 1e-12);
  }
  EXPECT_EQ(fit_gustafson({{1, 1}}), 0);
  EXPECT_EQ(fit_gustafson({{1, 1}, {2, 3}}), 0);
}

Run run_of(std::initializer_list<std::pair<int, double>> sizes, double batch) {
  Run run{.name = "run", .program = "p"};
  double time = 0;
  for (const auto& [ranks, seconds] : sizes) {
    run.worlds.push_back({time, 0, ranks, "join", 0, 0, 0, 0});
    for (int i = 0; i < 10; ++i) {
      StepRecord record;
      record.time = time += i < 2 ? 10 : seconds;
      record.ranks = ranks;
      record.batch = batch;
      record.step_seconds = i < 2 ? 10 : seconds;
      run.steps.push_back(record);
    }
  }
  return run;
}

TEST(Scaling, LeavesTheFirstStepsOfEachWorldOut) {
  const auto run = run_of({{2, 1}, {4, 0.5}}, 100);
  const Scaling scaling = scaling_of({&run, 1}, 2);
  ASSERT_EQ(scaling.sizes.size(), 2U);
  EXPECT_EQ(scaling.base, 2);
  EXPECT_DOUBLE_EQ(scaling.sizes[1].seconds.median, 0.5);
  EXPECT_DOUBLE_EQ(scaling.sizes[1].seconds.count, 8);
  EXPECT_DOUBLE_EQ(scaling.sizes[1].speedup, 4);
  EXPECT_DOUBLE_EQ(scaling.sizes[1].efficiency, 1);
  EXPECT_TRUE(std::isnan(scaling.sizes[1].karp_flatt)) << "needs the speed of one rank";
}

TEST(Scaling, OfAProgramWithoutSamplesCountsSteps) {
  const auto run = run_of({{1, 1}, {2, 0.5}}, NAN);
  const Scaling scaling = scaling_of({&run, 1}, 2);
  EXPECT_EQ(scaling.kind, Scaling::Kind::strong);
  EXPECT_DOUBLE_EQ(scaling.sizes[1].speed.median, 2);
}

TEST(Scaling, AShortBatchAtTheEndOfAPassIsNoMeasure) {
  auto run = run_of({{1, 1}}, 100);
  run.steps.back().batch = 10;
  run.steps.back().step_seconds = 0.1;
  EXPECT_DOUBLE_EQ(scaling_of({&run, 1}, 2).sizes[0].seconds.count, 7);
}

TEST(Scaling, OfNothingIsEmpty) { EXPECT_TRUE(scaling_of({}, 0).sizes.empty()); }

}  // namespace
}  // namespace bellows::report
