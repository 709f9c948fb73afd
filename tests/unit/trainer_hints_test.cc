// SPDX-License-Identifier: Apache-2.0
// What a training says of its size, against a search of all sizes by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "trainer/adaptation/hints.h"
#include "trainer/adaptation/rules.h"

namespace bellows::trainer {
namespace {

const ThroughputModel kTrue{0.02, 0.001, 0.06, 0.004, 0.01, 0.0015, 2.5};

PlanFor fixed(std::int64_t batch) {
  return [=](int, int ranks) { return BatchPlan{batch, (batch + ranks - 1) / ranks, 0}; };
}

// ---- against brute force ------------------------------------------------------------------------

/// Samples per second of a batch in one pass, from the formulas of throughput.h.
double speed_by_hand(const ThroughputModel& m, int nodes, int ranks, double batch) {
  const double compute = m.alpha_c + m.beta_c * std::ceil(batch / ranks);
  const double further = std::max(ranks - 2, 0);
  double network = 0;
  if (ranks > 1)
    network = nodes > 1 ? m.alpha_n + m.beta_n * further : m.alpha_r + m.beta_r * further;
  return batch / std::pow(std::pow(compute, m.gamma) + std::pow(network, m.gamma), 1 / m.gamma);
}

TEST(Hints, AreThoseOfASearchByHand) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> log(-6, 0);
  std::uniform_int_distribution<int> small(1, 4), size(1, 40);
  for (int round = 0; round < 300; ++round) {
    const auto draw = [&] { return std::exp(log(random)); };
    const ThroughputModel model{draw(), draw() / 50, draw(),        draw() / 30,
                                draw(), draw() / 30, 1 + 3 * draw()};
    const int on_a_node = small(random), nodes = size(random);
    const int least = 1 + static_cast<int>(random() % static_cast<unsigned>(nodes));
    const int most = nodes + static_cast<int>(random() % 30);
    const std::int64_t batch = 64 * size(random);
    const auto value = [&](int n) {
      return speed_by_hand(model, n, n * on_a_node, static_cast<double>(batch));
    };
    const SizeHints hints =
        find_hints({model, 0, 0, 64},
                   {nodes, nodes * on_a_node, least * on_a_node, most * on_a_node}, fixed(batch));

    double highest = 0;
    for (int n = least; n <= most; ++n) highest = std::max(highest, value(n));
    EXPECT_GE(value(hints.best_nodes), 0.99 * highest * (1 - 1e-9)) << round;
    for (int n = least; n < hints.best_nodes; ++n)
      EXPECT_LT(value(n), 0.99 * highest * (1 + 1e-9)) << round;
    EXPECT_EQ(hints.best_ranks, hints.best_nodes * on_a_node);
    const auto pays = [&](int n) { return (value(n + 1) / value(n) - 1) * n; };
    for (int n = least; n < hints.economic_nodes; ++n) EXPECT_GE(pays(n), 0.5 - 1e-9) << round;
    if (hints.economic_nodes < most) {
      EXPECT_LT(pays(hints.economic_nodes), 0.5 + 1e-9) << round;
    }
    EXPECT_EQ(hints.economic_ranks, hints.economic_nodes * on_a_node);
    EXPECT_NEAR(hints.goodput / value(nodes), 1, 1e-6);
    EXPECT_EQ(hints.gain_of_more.has_value(), nodes < most);
    if (hints.gain_of_more) {
      EXPECT_NEAR(*hints.gain_of_more, value(nodes + 1) / value(nodes) - 1, 1e-6);
    }
    EXPECT_EQ(hints.loss_of_less.has_value(), nodes > least);
    if (hints.loss_of_less) {
      EXPECT_NEAR(*hints.loss_of_less, 1 - value(nodes - 1) / value(nodes), 1e-6);
    }
  }
}

TEST(Hints, CountSamplesForWhatTheyAreWorth) {
  const BatchPlan plan{256, 32, 0};
  const double speed = kTrue.throughput(2, 8, 32, 0);
  EXPECT_NEAR(predicted_goodput({kTrue, 0, 0, 64}, 2, 8, plan), speed, 1e-9);
  // (v + s) / (v / scale + s) steps of the base batch, for scale times its samples.
  EXPECT_NEAR(predicted_goodput({kTrue, 1, 3, 64}, 2, 8, plan), speed * 4 / (3.0 / 4 + 1) / 4,
              1e-9);
}

TEST(Hints, HoldTheBoundsInWholeNodes) {
  const ThroughputModel scales{0.001, 1, 1e-8, 1e-8, 1e-8, 1e-8, 1};
  const SizeHints hints = find_hints({scales, 0, 0, 64}, {2, 4, 3, 9}, fixed(6400));
  EXPECT_EQ(hints.best_nodes, 4);  // of two ranks each
  EXPECT_EQ(hints.best_ranks, 8);
  EXPECT_FALSE(hints.loss_of_less);  // one node has two ranks, and three are the least
  // Nodes that are not full have what they have.
  const SizeHints uneven = find_hints({scales, 0, 0, 64}, {2, 3, 1, 3}, fixed(6400));
  EXPECT_EQ(uneven.best_nodes, 2);
  EXPECT_EQ(uneven.best_ranks, 3);
  EXPECT_FALSE(uneven.gain_of_more);
}

// ---- of a training ------------------------------------------------------------------------------

class HintsOfTraining : public testing::Test {
 protected:
  HintsOfTraining() { options.batch = 64; }
  void see(int nodes, int ranks, std::int64_t micro_batch) {
    const auto m = static_cast<double>(micro_batch);
    for (int i = 0; i < 3; ++i)
      now.profile.add(
          {nodes, ranks, m, kTrue.accumulate_seconds(m), kTrue.optimize_seconds(nodes, ranks, m)});
  }
  std::optional<SizeHints> hints(int nodes, int ranks) {
    return hints_of(options, now, {nodes, ranks, 1, 16});
  }
  Options options;
  Adaptation now;
};

TEST_F(HintsOfTraining, NeedTwoSizesAndThatOfNow) {
  EXPECT_FALSE(hints(1, 1));
  see(1, 1, 64);
  EXPECT_FALSE(hints(1, 1));  // what a network costs is not known
  see(1, 2, 32);
  EXPECT_TRUE(hints(1, 1));
  EXPECT_TRUE(hints(1, 2));
  EXPECT_FALSE(hints(2, 4));
  now = {};
  see(1, 2, 32);
  EXPECT_FALSE(hints(1, 2));  // what smaller passes cost is not known
}

TEST_F(HintsOfTraining, NeedOneSizeWhereTheShareOfARankStays) {
  options.batch_rule = "per-rank";
  now.rank_batch = 32;
  see(1, 2, 32);
  EXPECT_TRUE(hints(1, 2));
  options.max_batch = 128;  // with more ranks it does not
  EXPECT_FALSE(hints(1, 2));
}

TEST_F(HintsOfTraining, PredictWhatTheModelTheyCameFromSays) {
  for (const int nodes : {1, 2, 3, 4, 8}) see(nodes, nodes, (64 + nodes - 1) / nodes);
  const auto found = hints(4, 4);
  ASSERT_TRUE(found);
  const SizeHints truth = find_hints({kTrue, 0, 0, 64}, {4, 4, 1, 16}, fixed(64));
  EXPECT_NEAR(found->goodput / truth.goodput, 1, 0.05);
  EXPECT_NEAR(*found->gain_of_more, *truth.gain_of_more, 0.05);
  EXPECT_EQ(found->economic_nodes, truth.economic_nodes);
}

TEST_F(HintsOfTraining, OfAnAdaptiveBatchNeedItsNoise) {
  options.batch_rule = "adaptive";
  options.max_batch = 4096;
  see(1, 1, 64);
  see(1, 2, 32);
  see(2, 4, 64);
  now.batch = 256;
  EXPECT_FALSE(hints(2, 4));
  now.noise.front() = {1, 0, 1, kEnoughEstimates, 0, 0};  // a batch of 64 is as good as any
  const auto quiet = hints(2, 4);
  ASSERT_TRUE(quiet);
  now.noise.front().variance = 1000;
  const auto noisy = hints(2, 4);
  ASSERT_TRUE(noisy);
  EXPECT_GT(noisy->best_nodes, quiet->best_nodes);
  EXPECT_GT(noisy->goodput, quiet->goodput);
}

TEST_F(HintsOfTraining, ComeWithAPaceOfTheirOwn) {
  PacedHints paced;
  EXPECT_FALSE(paced.look(options, now, {1, 1, 1, 16}));
  see(1, 1, 64);
  see(1, 2, 32);
  EXPECT_FALSE(paced.look(options, now, {1, 1, 1, 16}));  // it has just looked
  EXPECT_TRUE(PacedHints().look(options, now, {1, 1, 1, 16}));
}

}  // namespace
}  // namespace bellows::trainer
