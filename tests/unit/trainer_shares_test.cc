// SPDX-License-Identifier: Apache-2.0
// Shares of a batch by the speed of the ranks: exact, near the ideal, at rest.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "trainer/adaptation/shares.h"

namespace bellows::trainer {
namespace {

TEST(WeightedShareTest, PartsCoverTheWholeAndFollowTheWeights) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> draw(0.01, 3);
  for (const std::uint64_t size : {0, 1, 5, 64, 1001})
    for (const int ranks : {1, 2, 3, 7}) {
      std::vector<double> weights;
      double sum = 0;
      for (int i = 0; i < ranks; ++i) sum += weights.emplace_back(draw(random));
      std::uint64_t at = 100;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range part = weighted_share({100, 100 + size}, rank, weights);
        EXPECT_EQ(part.begin, at);
        at = part.end;
        EXPECT_NEAR(static_cast<double>(part.size()),
                    weights[static_cast<std::size_t>(rank)] / sum * static_cast<double>(size), 1);
      }
      EXPECT_EQ(at, 100 + size);
    }
}

/// Ranks whose share of m samples takes (a + b m) times their slowness, with errors.
struct Ranks {
  std::vector<double> slowness;
  double fixed = 2, each = 0.25;
  std::uint64_t batch = 256;
  double error = 0;
  std::mt19937 random{1};

  std::vector<double> seconds(const Shares& shares) {
    std::normal_distribution<double> draw(0, error);
    std::vector<double> all;
    for (std::size_t r = 0; r < slowness.size(); ++r) {
      const auto m = static_cast<double>(
          weighted_share({0, batch}, static_cast<int>(r), shares.weights()).size());
      all.push_back(m > 0 ? slowness[r] * (fixed + each * m) / m * std::exp(draw(random)) : 0);
    }
    return all;
  }
  double step(const Shares& shares) const {
    double longest = 0;
    for (std::size_t r = 0; r < slowness.size(); ++r) {
      const auto m = static_cast<double>(
          weighted_share({0, batch}, static_cast<int>(r), shares.weights()).size());
      longest = std::max(longest, slowness[r] * (fixed + each * m));
    }
    return longest;
  }
  /// All done at once: sum of (T / slowness - fixed) / each = batch.
  double ideal() const {
    double speeds = 0;
    for (const double s : slowness) speeds += 1 / s;
    return (static_cast<double>(batch) * each + fixed * static_cast<double>(slowness.size())) /
           speeds;
  }
  int run(Shares& shares, int steps) {
    int changes = 0;
    for (int i = 0; i < steps; ++i) changes += shares.add(seconds(shares), batch) ? 1 : 0;
    return changes;
  }
};

TEST(SharesTest, AreEqualWhereRanksAreEqual) {
  for (const double error : {0.0, 0.1}) {
    Ranks ranks{{1, 1, 1, 1}};
    ranks.error = error;
    Shares shares(true, std::vector<double>(4, 0));
    EXPECT_LE(ranks.run(shares, 1000), 2) << error;
    EXPECT_LT(ranks.step(shares), 1.06 * ranks.ideal());
  }
}

TEST(SharesTest, WithOneRankAtAThirdComeWithinFivePercentOfTheIdeal) {
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U})
    for (const int count : {2, 4, 8}) {
      Ranks ranks{std::vector<double>(static_cast<std::size_t>(count), 1)};
      ranks.slowness[1] = 3;
      ranks.error = 0.1;
      ranks.random.seed(seed);
      Shares shares(true, std::vector<double>(static_cast<std::size_t>(count), 0));
      ranks.run(shares, 400);
      EXPECT_LT(ranks.step(shares), ranks.ideal() / 0.95) << count << " ranks, seed " << seed;
      // And come to rest.
      EXPECT_LE(ranks.run(shares, 2000), 4) << count << " ranks, seed " << seed;
    }
}

TEST(SharesTest, NeverSwingWithExactTimes) {
  Ranks ranks{{1, 3, 1.5}};
  ranks.fixed = 5;
  Shares shares(true, {0, 0, 0});
  double before = weighted_share({0, ranks.batch}, 1, shares.weights()).size();
  for (int i = 0; i < 2000; ++i) {
    shares.add(ranks.seconds(shares), ranks.batch);
    const double now = weighted_share({0, ranks.batch}, 1, shares.weights()).size();
    EXPECT_LE(now, before);  // the slow rank's share only shrinks
    before = now;
  }
  EXPECT_LT(ranks.step(shares), 1.06 * ranks.ideal());
}

TEST(SharesTest, FollowARankThatRecovers) {
  Ranks ranks{{1, 3}};
  Shares shares(true, {0, 0});
  ranks.run(shares, 200);
  ranks.slowness[1] = 1;
  ranks.run(shares, 400);
  EXPECT_LT(ranks.step(shares), 1.06 * ranks.ideal());
}

TEST(SharesTest, BeginWithWhatIsKnownAndAreBounded) {
  const Shares known(true, {1, 0, 3});
  EXPECT_NEAR(known.weights()[0] / known.weights()[2], 3, 1e-9);
  EXPECT_NEAR(known.weights()[0] / known.weights()[1], 2, 1e-9);
  const Shares extreme(true, {1, 1, 1, 1000});
  EXPECT_GT(extreme.weights()[3], 1.0 / 33);
  const Shares off(false, {1, 3});
  EXPECT_EQ(off.weights()[0], off.weights()[1]);
}

TEST(StragglerTest, IsOneForLongOnly) {
  Ranks ranks{{1, 1, 2.5}};
  for (const bool balance : {false, true}) {
    Shares shares(balance, {0, 0, 0});
    EXPECT_EQ(shares.straggler(), -1);
    ranks.run(shares, 10);
    EXPECT_EQ(shares.straggler(), -1);
    ranks.run(shares, 400);
    EXPECT_EQ(shares.straggler(), 2);
    EXPECT_NEAR(shares.slowness(2), 2.5, balance ? 0.5 : 0.1);
  }
  ranks.slowness = {1, 1.5, 1.9};
  ranks.fixed = 0;
  Shares shares(false, {0, 0, 0});
  ranks.run(shares, 400);
  EXPECT_EQ(shares.straggler(), -1);
}

}  // namespace
}  // namespace bellows::trainer
