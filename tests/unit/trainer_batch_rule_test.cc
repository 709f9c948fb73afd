// SPDX-License-Identifier: Apache-2.0
// How the batch follows the ranks, and in how many passes a rank works through its share.
#include <gtest/gtest.h>

#include "trainer/adaptation/batch_rule.h"
#include "trainer/data/sampler.h"

namespace bellows::trainer {
namespace {

Options rule(const std::string& name, std::int64_t rank_batch = 0) {
  Options o;
  o.batch = 100;
  o.batch_rule = name;
  o.rank_batch = rank_batch;
  return o;
}

std::vector<std::int64_t> batches(const Options& o, std::int64_t rank_batch) {
  std::vector<std::int64_t> all;
  for (const int ranks : {1, 2, 3, 4, 8}) all.push_back(batch_for(o, rank_batch, ranks));
  return all;
}

using Batches = std::vector<std::int64_t>;

TEST(BatchRuleTest, FixedStays) { EXPECT_EQ(batches(rule("fixed"), 50), Batches(5, 100)); }

TEST(BatchRuleTest, PerRankGrowsAndShrinksWithTheRanks) {
  EXPECT_EQ(batches(rule("per-rank"), 50), (Batches{50, 100, 150, 200, 400}));
}

TEST(BatchRuleTest, HybridGrowsOnlyWhenRanksWouldHaveTooLittle) {
  EXPECT_EQ(batches(rule("hybrid", 30), 30), (Batches{100, 100, 100, 120, 240}));
}

TEST(BatchRuleTest, TheBatchStaysWithinItsBounds) {
  Options o = rule("per-rank");
  o.max_batch = 180;
  EXPECT_EQ(batches(o, 50), (Batches{50, 100, 150, 180, 180}));
  o.micro_batch_least = 60;
  EXPECT_EQ(batches(o, 50), (Batches{60, 120, 180, 180, 180}));
  o = rule("hybrid", 30);
  o.max_batch = 130;
  EXPECT_EQ(batches(o, 30), (Batches{100, 100, 100, 120, 130}));
}

TEST(BatchRuleTest, TheStartDividesTheBatchAmongItsRanks) {
  EXPECT_EQ(default_rank_batch(rule("per-rank"), 4), 25);
  EXPECT_EQ(default_rank_batch(rule("per-rank"), 3), 34);
  EXPECT_EQ(default_rank_batch(rule("per-rank", 7), 3), 7);
}

TEST(BatchRuleTest, PassesAreAsFewAndAsEqualAsTheBoundAllows) {
  Options o = rule("fixed");
  EXPECT_EQ(with_passes(o, 100, 4), (BatchPlan{100, 25, 0}));
  o.micro_batch_most = 16;
  EXPECT_EQ(with_passes(o, 100, 4), (BatchPlan{100, 13, 1}));
  EXPECT_EQ(with_passes(o, 100, 1), (BatchPlan{100, 15, 6}));
  EXPECT_EQ(with_passes(o, 100, 200), (BatchPlan{100, 1, 0}));
  o.micro_batch_most = 0;
  o.micro_batch = 10;
  EXPECT_EQ(with_passes(o, 100, 3), (BatchPlan{100, 10, 3}));
}

TEST(BatchRuleTest, APolicysMicroBatchLowersTheOneOfTheOptionsOnly) {
  Options o = rule("fixed");
  EXPECT_EQ(make_plan(o, 100, 0, 4), (BatchPlan{100, 25, 0}));
  EXPECT_EQ(make_plan(o, 100, 10, 4), (BatchPlan{100, 9, 2}));
  EXPECT_EQ(make_plan(o, 100, 40, 4), (BatchPlan{100, 25, 0}));
  o.micro_batch_least = 12;
  o.micro_batch_most = 16;
  EXPECT_EQ(make_plan(o, 100, 5, 4), (BatchPlan{100, 9, 2}));
  EXPECT_EQ(make_plan(o, 100, 100, 4), (BatchPlan{100, 13, 1}));
  o.max_batch = 80;
  EXPECT_EQ(make_plan(o, 100, 0, 4).batch, 80);
  EXPECT_EQ(make_plan(o, 0, 0, 4).batch, 1);
}

TEST(BatchRuleTest, PassesAreCountedAsTheyAreMade) {
  for (const std::int64_t batch : {1, 2, 7, 100})
    for (const std::int64_t micro : {1, 3, 16, 1000})
      for (const int ranks : {1, 2, 3, 9}) {
        std::int64_t expected = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const Range own = share({0, static_cast<std::uint64_t>(batch)}, rank, ranks);
          for (std::uint64_t at = own.begin; at < own.end; at += static_cast<std::uint64_t>(micro))
            ++expected;
        }
        EXPECT_EQ(count_passes(batch, micro, ranks), expected);
      }
}

}  // namespace
}  // namespace bellows::trainer
