// SPDX-License-Identifier: Apache-2.0
// The built-in policies, and the adaptive one in a simulated training: its step times are those of
// a true model, its gradient noise grows as it trains, its world changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "trainer/adaptation/adaptation.h"
#include "trainer/adaptation/goodput.h"
#include "trainer/adaptation/rules.h"
#include "trainer/errors.h"

namespace bellows::trainer {
namespace {

Options adaptive(std::int64_t most) {
  Options o;
  o.batch = 64;
  o.batch_rule = "adaptive";
  o.max_batch = most;
  return o;
}

/// A world of a simulated training, as DecisionPoints would see it.
struct Simulation {
  Options options;
  ThroughputModel truth{0.02, 0.001, 0.06, 0.004, 0.01, 0.0015, 2.5};
  double square = 1, variance = 1;
  double error = 0.05;
  Adaptation state{};
  std::unique_ptr<Policy> policy = make_policy(options);
  std::mt19937 random{1};
  BatchPlan plan{};
  int changes = 0;

  Decision ask(int nodes, int ranks, bool new_world) {
    Situation now = situation(options, state, nodes, ranks);
    now.new_world = new_world;
    ThroughputModel model;
    if (!now.times.empty()) {
      model = fit_throughput(now.times);
      now.model = &model;
    }
    return policy->decide(now);
  }
  void take(const Decision& decision, int ranks) {
    if (decision.batch == 0) return;
    const BatchPlan next = make_plan(options, decision.batch, decision.micro_batch, ranks);
    if (next != plan) ++changes;
    plan = next;
  }
  void world(int nodes, int ranks, int steps) {
    std::normal_distribution<double> draw(0, error);
    take(ask(nodes, ranks, true), ranks);
    for (int step = 1; step <= steps; ++step) {
      state.batch = plan.batch;
      state.micro_batch = plan.micro_batch;
      state.accumulation = plan.accumulation;
      const auto micro = static_cast<double>(plan.micro_batch);
      state.profile.add({nodes, ranks, micro,
                         truth.accumulate_seconds(micro) * std::exp(draw(random)),
                         truth.optimize_seconds(nodes, ranks, micro) * std::exp(draw(random))});
      const double scale = static_cast<double>(plan.batch) / 64;
      // n = 4 passes that estimate exactly (square, variance).
      state.noise.front().add({4, square + 4 * variance / scale, square + variance / scale, scale});
      if (step % 50 == 0) take(ask(nodes, ranks, false), ranks);
    }
  }
  double quality(int nodes, int ranks) const {
    const Goodput exact{truth, square, variance, options.batch};
    const BatchBounds bounds{options.max_batch, options.micro_batch_least,
                             options.micro_batch_most};
    return exact(nodes, ranks, {plan.micro_batch, plan.accumulation}) /
           exact(nodes, ranks, exact.best(nodes, ranks, bounds));
  }
};

TEST(AdaptivePolicyTest, FindsTheBestBatchByWhatItMeasures) {
  for (const double variance : {0.2, 3.0, 40.0}) {
    Simulation run{adaptive(4096)};
    run.variance = variance;
    run.world(1, 4, 500);
    EXPECT_GT(run.quality(1, 4), 0.9) << variance;
    const int changes = run.changes;
    run.world(1, 4, 1000);
    EXPECT_GT(run.quality(1, 4), 0.9) << variance;
    EXPECT_LE(run.changes - changes, 2) << "it does not come to rest with " << variance;
  }
}

TEST(AdaptivePolicyTest, GrowsTheBatchAsTheNoiseGrows) {
  Simulation run{adaptive(4096)};
  run.variance = 0.5;
  run.world(1, 4, 600);
  const std::int64_t early = run.plan.batch;
  run.variance = 50;
  run.world(1, 4, 2000);
  EXPECT_GT(run.plan.batch, 2 * early);
  EXPECT_LE(run.plan.batch, 4096);
}

TEST(AdaptivePolicyTest, GoesThroughChangesOfTheWorld) {
  Simulation run{adaptive(2048)};
  run.variance = 10;
  for (const auto& [nodes, ranks] : {std::pair{1, 1}, {1, 3}, {2, 6}, {4, 16}, {2, 5}, {1, 1}}) {
    run.world(nodes, ranks, 400);
    EXPECT_GT(run.quality(nodes, ranks), 0.85) << ranks << " ranks";
    EXPECT_LE(run.plan.batch, 2048);
  }
}

TEST(AdaptivePolicyTest, KeepsTheBatchWhileNothingIsKnown) {
  Simulation run{adaptive(2048)};
  run.world(1, 2, 0);
  EXPECT_EQ(run.plan, (BatchPlan{64, 32, 0}));
  run.variance = 1000;
  run.world(1, 2, 10);
  run.world(1, 3, 0);
  EXPECT_EQ(run.plan, (BatchPlan{64, 22, 0}));
}

TEST(AdaptivePolicyTest, KeepsToItsBounds) {
  Options o = adaptive(1000);
  o.micro_batch_least = 8;
  o.micro_batch_most = 24;
  Simulation run{o};
  run.variance = 1000;
  run.world(1, 4, 600);
  EXPECT_LE(run.plan.batch, 1000);
  EXPECT_GT(run.plan.batch, 500);
  EXPECT_LE(run.plan.micro_batch, 24);
  EXPECT_GE(run.plan.micro_batch, 8);
  EXPECT_GE(run.plan.accumulation, 5);
}

TEST(AdaptivePolicyTest, OneRankMakesTwoPassesBeyondTheBaseBatch) {
  Simulation run{adaptive(2048)};
  run.variance = 100;
  run.world(1, 1, 400);
  EXPECT_GT(run.plan.batch, 64);
  EXPECT_GE(run.plan.accumulation, 1);
  run.world(1, 4, 50);
  run.world(1, 1, 0);
  EXPECT_GE(run.plan.accumulation, 1);
}

TEST(RankPoliciesTest, AreFunctionsOfTheRanks) {
  Options o;
  o.batch = 100;
  o.batch_rule = "hybrid";
  o.rank_batch = 30;
  const auto policy = make_policy(o);
  Adaptation state;
  state.rank_batch = 30;
  EXPECT_EQ(policy->decide(situation(o, state, 1, 3)).batch, 100);
  EXPECT_EQ(policy->decide(situation(o, state, 2, 8)).batch, 240);
  o.batch_rule = "fixed";
  EXPECT_EQ(make_policy(o)->decide(situation(o, state, 2, 8)).batch, 100);
}

TEST(PolicyLibraryTest, OneThatIsNoneIsRefused) {
  Options o;
  o.policy = "/nowhere/none.so";
  EXPECT_THROW(make_policy(o), UsageError);
  o.policy = "libm.so.6";  // of the present folder, not of the system
  EXPECT_THROW(make_policy(o), UsageError);
}

// ---- what is kept of step times -----------------------------------------------------------------

TEST(ProfileTest, HasTheMeansOfEachKind) {
  Profile profile;
  for (int i = 0; i < 40; ++i) {
    profile.add({1, 2, 16, 1.0 + i % 2, 2.0});
    profile.add({1, 2, 32, 3.0, 4.0 + i % 2, i % 2 * 0.5});
  }
  profile.add({1, 3, 32, 1, 1});  // too few to count
  const auto times = profile.times();
  ASSERT_EQ(times.size(), 2);
  EXPECT_NEAR(times[0].accumulate_seconds, 1.5, 1e-9);
  EXPECT_NEAR(times[1].optimize_seconds, 4.5, 1e-9);
  EXPECT_NEAR(times[1].update_seconds, 0.25, 1e-9);
}

TEST(ProfileTest, DoesNotFollowSingleOutliers) {
  Profile profile;
  for (int i = 0; i < 50; ++i) profile.add({1, 2, 16, 1, 2});
  profile.add({1, 2, 16, 500, 500});
  EXPECT_LT(profile.times()[0].accumulate_seconds, 1.1);
  for (const double bad : {0.0, -1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    profile.add({1, 2, 16, bad, 1});
  EXPECT_LT(profile.times()[0].accumulate_seconds, 1.1);
}

TEST(ProfileTest, ForgetsWhatWasSeenLongestAgo) {
  Profile profile;
  const auto seen = [&](double micro) {
    for (std::int64_t i = 0; i < Profile::kEnough; ++i) profile.add({1, 2, micro, 1, 2});
  };
  for (std::size_t i = 1; i <= Profile::kPlaces; ++i) seen(static_cast<double>(i));
  seen(1);
  seen(1000);
  const auto times = profile.times();
  EXPECT_EQ(times.size(), Profile::kPlaces);
  const auto has = [&](double micro) {
    return std::any_of(times.begin(), times.end(),
                       [&](const auto& t) { return t.micro_batch == micro; });
  };
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2));
  EXPECT_TRUE(has(1000));
}

}  // namespace
}  // namespace bellows::trainer
