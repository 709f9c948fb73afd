// SPDX-License-Identifier: Apache-2.0
// Gradient noise: estimates without bias for any shares, moving averages, and what batches are
// worth by them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "trainer/adaptation/gradient_noise.h"

namespace bellows::trainer {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector mean(const std::vector<Vector>& all) {
  Vector sum(all.front().size(), 0);
  for (const Vector& one : all)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i] / static_cast<double>(all.size());
  return sum;
}

/// Gradients of single samples, all as likely.
const std::vector<Vector> kGradients{{1, 2, 0}, {-1, 0.5, 3}, {2, 0, -1}, {0.25, -2, 1}};

double trace_of_covariance() {
  double sum = 0;
  for (const Vector& g : kGradients) sum += dot(g, g);
  return sum / static_cast<double>(kGradients.size()) - dot(mean(kGradients), mean(kGradients));
}

/// What passes over these samples, each of so many, measure.
MicroGradients measure(const std::vector<Vector>& samples, const std::vector<std::size_t>& shares,
                       double base_batch) {
  MicroGradients measured;
  const auto batch = static_cast<double>(samples.size());
  auto at = samples.begin();
  for (const std::size_t share : shares) {
    const Vector g = mean({at, at + static_cast<std::ptrdiff_t>(share)});
    measured.mean_square += static_cast<double>(share) / batch * dot(g, g);
    at += static_cast<std::ptrdiff_t>(share);
  }
  const Vector whole = mean(samples);
  measured.passes = static_cast<double>(shares.size());
  measured.square_of_mean = dot(whole, whole);
  measured.scale = batch / base_batch;
  return measured;
}

/// Calls f with each batch of so many samples that there can be.
void for_all_batches(std::size_t size, const std::function<void(const std::vector<Vector>&)>& f) {
  std::vector<Vector> batch(size);
  const auto count = static_cast<std::size_t>(std::pow(kGradients.size(), size));
  for (std::size_t which = 0; which < count; ++which) {
    std::size_t rest = which;
    for (Vector& one : batch) {
      one = kGradients[rest % kGradients.size()];
      rest /= kGradients.size();
    }
    f(batch);
  }
}

TEST(NoiseEstimateTest, HasNoBiasWhateverTheSharesAre) {
  const double square = dot(mean(kGradients), mean(kGradients));
  for (const auto& shares : std::vector<std::vector<std::size_t>>{
           {1, 1}, {2, 2}, {1, 2}, {1, 4}, {2, 1, 1}, {1, 2, 3}, {1, 1, 1, 1}}) {
    std::size_t size = 0;
    for (const std::size_t share : shares) size += share;
    double squares = 0;
    double variances = 0;
    double count = 0;
    for_all_batches(size, [&](const std::vector<Vector>& batch) {
      const auto estimate = estimate_noise(measure(batch, shares, 8));
      squares += estimate->square;
      variances += estimate->variance;
      ++count;
    });
    EXPECT_NEAR(squares / count, square, 1e-10);
    EXPECT_NEAR(variances / count, trace_of_covariance() / 8, 1e-10);
  }
}

// The formulas of Pollux: n, |mean|^2 and the plain mean of the squares.
TEST(NoiseEstimateTest, WithEqualSharesIsThatOfThePaper) {
  const std::vector<Vector> batch{{1, 2, 0}, {-1, 0.5, 3}, {2, 0, -1}};
  const auto estimate = estimate_noise(measure(batch, {1, 1, 1}, 2));
  const double local = (5 + 10.25 + 5) / 3;
  const double whole = dot(mean(batch), mean(batch));
  EXPECT_NEAR(estimate->square, (3 * whole - local) / 2, 1e-12);
  EXPECT_NEAR(estimate->variance, (local - whole) * 1.5 / 2, 1e-12);
}

TEST(NoiseEstimateTest, TwoStepsAreTakenAsTwoPassesOfOneBatch) {
  const std::vector<Vector> batch{{1, 2, 0}, {-1, 0.5, 3}, {2, 0, -1}};
  const Vector first = mean({batch[0]});
  const Vector second = mean({batch[1], batch[2]});
  const MicroGradients both =
      differenced(dot(first, first), dot(second, second), dot(first, second), 1, 2, 5);
  const MicroGradients expected = measure(batch, {1, 2}, 5);
  EXPECT_TRUE(both.differenced);
  EXPECT_NEAR(both.mean_square, expected.mean_square, 1e-12);
  EXPECT_NEAR(both.square_of_mean, expected.square_of_mean, 1e-12);
  EXPECT_EQ(both.scale, expected.scale);
}

TEST(NoiseEstimateTest, OfOnePassOrOfWhatIsNotFiniteThereIsNone) {
  EXPECT_FALSE(estimate_noise({1, 2, 2, 1}));
  EXPECT_FALSE(estimate_noise({2, INFINITY, 2, 1}));
  EXPECT_FALSE(estimate_noise({2, 2, NAN, 1}));
}

MicroGradients of(double square, double variance, double scale) {
  // Two passes: S - |m|^2 = variance / scale, 2 |m|^2 - S = square.
  const double whole = square + variance / scale;
  return {2, whole + variance / scale, whole, scale};
}

TEST(NoiseAveragesTest, HaveNoBiasToZero) {
  NoiseAverages averages;
  averages.add(of(3, 5, 2));
  EXPECT_NEAR(mean_gradient_square({&averages, 1}), 3, 1e-12);
  EXPECT_NEAR(gradient_variance({&averages, 1}), 5, 1e-12);
  for (int i = 0; i < 500; ++i) averages.add(of(3, 5, 2));
  EXPECT_NEAR(mean_gradient_square({&averages, 1}), 3, 1e-9);
  EXPECT_EQ(averages.estimates, 501);
}

// The sum of all estimates, each with the weight that its age in samples gives it.
TEST(NoiseAveragesTest, AreTheWeightedMeanOfAllEstimates) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> draw(0.5, 4);
  NoiseAverages averages;
  std::vector<std::array<double, 3>> all;
  for (int i = 0; i < 300; ++i) {
    all.push_back({draw(random), draw(random), std::floor(draw(random) + 1)});
    averages.add(of(all.back()[0], all.back()[1], all.back()[2]));
  }
  double weights = 0;
  double square = 0;
  double younger = 0;
  for (std::size_t i = all.size(); i-- > 0;) {
    const double weight = std::pow(0.999, younger) * (1 - std::pow(0.999, all[i][2]));
    weights += weight;
    square += weight * all[i][0];
    younger += all[i][2];
  }
  EXPECT_NEAR(mean_gradient_square({&averages, 1}), square / weights, 1e-10);
}

TEST(NoiseAveragesTest, SkipAndCountWhatIsNotFinite) {
  NoiseAverages averages;
  averages.add(of(3, 5, 2));
  const NoiseAverages before = averages;
  averages.add({2, NAN, 1, 2});
  averages.add({2, INFINITY, INFINITY, 2});
  EXPECT_EQ(averages.skipped, 2);
  averages.skipped = 0;
  EXPECT_EQ(averages, before);
  averages.add({1, 7, 7, 2});
  EXPECT_EQ(averages, before) << "one pass says nothing, and is no fault";
}

TEST(NoiseAveragesTest, ForgetBiasedEstimatesWhenBetterOnesCome) {
  NoiseAverages averages;
  MicroGradients biased = of(30, 50, 2);
  biased.differenced = true;
  averages.add(biased);
  averages.add(biased);
  EXPECT_NEAR(mean_gradient_square({&averages, 1}), 30, 1e-9);
  averages.add(of(3, 5, 2));
  EXPECT_NEAR(mean_gradient_square({&averages, 1}), 3, 1e-9);
}

TEST(NoiseAveragesTest, OfGroupsAddUpAndNegativeOnesCountAsZero) {
  NoiseAverages groups[2];
  groups[0].add(of(3, 5, 2));
  groups[1].add(of(-1, 7, 2));
  EXPECT_NEAR(mean_gradient_square(groups), 3, 1e-12);
  EXPECT_NEAR(gradient_variance(groups), 12, 1e-12);
  EXPECT_NEAR(gain(groups, 4), 15 / (3 + 3.0), 1e-12);
}

TEST(GroupAveragesTest, SayNothingWhereOneGroupIsNotFinite) {
  GroupAverages groups{};
  add(groups, std::vector{of(3, 5, 2), of(1, 7, 2)});
  EXPECT_NEAR(mean_gradient_square(groups), 4, 1e-12);
  EXPECT_NEAR(gradient_variance(groups), 12, 1e-12);
  const GroupAverages before = groups;
  add(groups, std::vector{of(3, 5, 2), MicroGradients{2, NAN, 1, 2}});
  for (std::size_t g = 0; g < 2; ++g) {
    EXPECT_EQ(groups[g].skipped, 1);
    groups[g].skipped = 0;
  }
  EXPECT_EQ(groups, before);
  add(groups, {});
  EXPECT_EQ(groups, before);
}

TEST(GainTest, GoesFromOneToTheScale) {
  EXPECT_EQ(gain(1, 1, 1), 1);
  EXPECT_EQ(gain(1, 0, 8), 1) << "without noise a larger batch is for nothing";
  EXPECT_EQ(gain(0, 1, 8), 8) << "with noise alone each sample counts";
  EXPECT_EQ(gain(0, 0, 8), 1) << "nothing is known";
  EXPECT_DOUBLE_EQ(gain(1, 1, 4), 1.6);
  EXPECT_DOUBLE_EQ(efficiency(1, 1, 4), 0.4);
  EXPECT_LT(gain(1, 1, 0.5), 1);
}

TEST(NoiseScaleTest, IsInSamples) {
  NoiseAverages averages;
  EXPECT_EQ(noise_scale({&averages, 1}, 64), 0);
  averages.add(of(2, 6, 1));
  EXPECT_NEAR(noise_scale({&averages, 1}, 64), 192, 1e-9);
  NoiseAverages none;
  none.add(of(-2, 6, 1));
  EXPECT_TRUE(std::isinf(noise_scale({&none, 1}, 64)));
}

}  // namespace
}  // namespace bellows::trainer
