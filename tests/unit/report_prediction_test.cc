// SPDX-License-Identifier: Apache-2.0
// What reports expect of sizes that were not measured, against a model that is known.
#include <gtest/gtest.h>

#include "trainer/report/prediction.h"

namespace bellows::report {
namespace {

using trainer::ThroughputModel;

const ThroughputModel kTruth{0.01, 0.001, 0.03, 0.003, 0.008, 0.001, 1.5};

struct Size {
  int nodes, ranks;
  double batch;
};

/// What a training of steps with these times would leave.
Run run_of(const std::vector<Size>& sizes) {
  Run run{.name = "run", .program = "p"};
  double time = 0;
  for (const Size& size : sizes) {
    run.worlds.push_back({time, 0, size.ranks, "join", 0, 0, 0, 0});
    for (int i = 0; i < 10; ++i) {
      StepRecord record;
      record.ranks = size.ranks;
      record.nodes = size.nodes;
      record.batch = size.batch;
      const double share = size.batch / size.ranks;
      const double compute = kTruth.accumulate_seconds(share);
      record.step_seconds = kTruth.optimize_seconds(size.nodes, size.ranks, share);
      record.parts = {{"data", compute / 10},
                      {"forward", 3 * compute / 10},
                      {"backward", 6 * compute / 10},
                      {"communication", record.step_seconds - compute}};
      record.time = time += record.step_seconds;
      run.steps.push_back(record);
    }
  }
  return run;
}

Scaling of(const Run& run) { return scaling_of({&run, 1}, 2); }

Scaling scaling_of_sizes(const std::vector<Size>& sizes) { return of(run_of(sizes)); }

double true_speed(int nodes, int ranks, double batch) {
  return kTruth.throughput(nodes, ranks, batch / ranks, 0);
}

const std::vector<Size> kStrong{{1, 1, 256}, {1, 2, 256}, {2, 4, 256}, {4, 8, 256}};

TEST(Prediction, FindsTheFastestAndTheCheapestSize) {
  const auto found = predict(scaling_of_sizes(kStrong));
  ASSERT_TRUE(found);
  EXPECT_LT(found->error, 0.05);
  ASSERT_EQ(found->sizes.size(), 32U) << "four times the largest";
  double best = 0;
  for (const Prediction& size : found->sizes) {
    EXPECT_EQ(size.nodes, (size.ranks + 1) / 2) << "two ranks per node, as measured";
    const double truth = true_speed(size.nodes, size.ranks, 256);
    EXPECT_NEAR(size.speed / truth, 1, 0.1) << size.ranks;
    best = std::max(best, truth);
  }
  // Not the largest: further ranks cost more than they give.
  EXPECT_LT(found->fastest.ranks, 32);
  EXPECT_GT(found->fastest.ranks, 4);
  EXPECT_GT(true_speed(found->fastest.nodes, found->fastest.ranks, 256), 0.97 * best);
  EXPECT_EQ(found->cheapest.ranks, 1);
  EXPECT_DOUBLE_EQ(found->cheapest.rank_seconds_per_sample, 1 / found->sizes.front().speed);
  EXPECT_FALSE(found->most_goodput) << "no noise was measured";
}

TEST(Prediction, DoesNotGoWhereNothingIsKnown) {
  const auto one_node = predict(scaling_of_sizes({{1, 1, 256}, {1, 2, 256}, {1, 4, 256}}));
  ASSERT_TRUE(one_node);
  EXPECT_EQ(one_node->sizes.size(), 4U);
  const auto two_ranks = predict(scaling_of_sizes({{1, 1, 256}, {2, 2, 256}}));
  ASSERT_TRUE(two_ranks);
  EXPECT_EQ(two_ranks->sizes.size(), 2U);
}

TEST(Prediction, OfWeakScalingGrowsTheBatch) {
  const auto found = predict(scaling_of_sizes({{1, 1, 64}, {1, 2, 128}, {2, 4, 256}, {4, 8, 512}}));
  ASSERT_TRUE(found);
  for (const Prediction& size : found->sizes) EXPECT_DOUBLE_EQ(size.batch, 64.0 * size.ranks);
}

TEST(Prediction, WorksThroughLargerSharesInPassesOfTheSizeThatWasMeasured) {
  // One rank would have 256 samples at once; 128 were the most.
  const auto found = predict(scaling_of_sizes({{1, 2, 256}, {2, 4, 256}}));
  ASSERT_TRUE(found);
  const Prediction& one = found->sizes.front();
  EXPECT_NEAR(one.step_seconds, found->model.step_seconds(1, 1, 128, 1), 1e-12);
}

TEST(Prediction, OfGoodputTakesTheBatchThatTheNoiseAllows) {
  Scaling scaling = scaling_of_sizes(kStrong);
  scaling.base_batch = 256;
  scaling.max_batch = 4096;
  scaling.noise_scale = 20;  // larger batches are worth nothing
  auto found = predict(scaling);
  ASSERT_TRUE(found && found->most_goodput);
  EXPECT_LT(found->most_goodput->batch, 400);
  scaling.noise_scale = 1e6;  // and here they cost nothing
  const auto noisy = predict(scaling);
  EXPECT_GT(noisy->most_goodput->batch, 2000);
  EXPECT_GT(noisy->most_goodput->ranks, found->most_goodput->ranks);
  EXPECT_GT(noisy->goodput, found->goodput);
  scaling.max_batch = 0;  // the batch was to stay
  EXPECT_NEAR(predict(scaling)->most_goodput->batch, 256, 32);
}

TEST(Prediction, NeedsTwoSizesAndTheirParts) {
  EXPECT_FALSE(predict(scaling_of_sizes({{1, 2, 256}})));
  EXPECT_FALSE(predict(Scaling{}));
  auto run = run_of(kStrong);
  for (StepRecord& record : run.steps) record.parts.clear();
  EXPECT_FALSE(predict(of(run)));
}

TEST(Prediction, CountsPassesBeforeTheLast) {
  auto run = run_of({{1, 1, 256}, {1, 2, 256}});
  for (StepRecord& record : run.steps) {
    record.accumulation = 3;
    record.parts.emplace_back("update", 0.125);
    record.step_seconds += 0.125;
  }
  const Scaling scaling = of(run);
  ASSERT_EQ(scaling.passes.size(), 2U);
  const auto& [times, accumulation] = scaling.passes.front();
  EXPECT_EQ(accumulation, 3);
  EXPECT_DOUBLE_EQ(times.micro_batch, 64);
  EXPECT_NEAR(times.accumulate_seconds, kTruth.accumulate_seconds(256) / 4, 1e-12);
  EXPECT_DOUBLE_EQ(times.update_seconds, 0.125);
  EXPECT_NEAR(3 * times.accumulate_seconds + times.optimize_seconds + times.update_seconds,
              run.steps.front().step_seconds, 1e-12);
}

}  // namespace
}  // namespace bellows::report
