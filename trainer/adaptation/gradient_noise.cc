// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/gradient_noise.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bellows::trainer {

std::optional<NoiseEstimate> estimate_noise(const MicroGradients& measured) {
  const auto [n, mean_square, square_of_mean, scale, two_steps, interval] = measured;
  if (n < 2 || !std::isfinite(mean_square) || !std::isfinite(square_of_mean)) return std::nullopt;
  return NoiseEstimate{(n * square_of_mean - mean_square) / (n - 1),
                       (mean_square - square_of_mean) * scale / (n - 1)};
}

MicroGradients differenced(double first_square, double second_square, double dot,
                           double first_batch, double second_batch, double base_batch) {
  const double both = first_batch + second_batch;
  const double a = first_batch / both;
  const double b = second_batch / both;
  return {2, a * first_square + b * second_square,
          a * a * first_square + 2 * a * b * dot + b * b * second_square, both / base_batch, true};
}

void NoiseAverages::add(const MicroGradients& measured) {
  const auto estimate = estimate_noise(measured);
  if (!estimate) {
    if (measured.passes >= 2) ++skipped;
    return;
  }
  if (differenced != 0 && !measured.differenced) square = variance = weight = 0;
  differenced = measured.differenced ? 1 : 0;
  const double keep = std::pow(0.999, measured.scale * measured.interval);
  square = keep * square + (1 - keep) * estimate->square;
  variance = keep * variance + (1 - keep) * estimate->variance;
  weight = keep * weight + (1 - keep);
  ++estimates;
}

void add(GroupAverages& averages, std::span<const MicroGradients> measured) {
  double sum = 0;
  for (const MicroGradients& group : measured) sum += group.mean_square + group.square_of_mean;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    MicroGradients group = measured[i];
    if (!std::isfinite(sum)) group.mean_square = sum;
    averages[i].add(group);
  }
}

namespace {

template <typename F>
double sum_over(std::span<const NoiseAverages> groups, F value) {
  double sum = 0;
  for (const NoiseAverages& group : groups)
    if (group.weight > 0) sum += std::max(0.0, value(group) / group.weight);
  return sum;
}

}  // namespace

double mean_gradient_square(std::span<const NoiseAverages> groups) {
  return sum_over(groups, [](const NoiseAverages& group) { return group.square; });
}

double gradient_variance(std::span<const NoiseAverages> groups) {
  return sum_over(groups, [](const NoiseAverages& group) { return group.variance; });
}

double gain(double square, double variance, double scale) {
  const double below = variance / scale + square;
  return below > 0 ? (variance + square) / below : 1;
}

double gain(std::span<const NoiseAverages> groups, double scale) {
  return gain(mean_gradient_square(groups), gradient_variance(groups), scale);
}

double efficiency(double square, double variance, double scale) {
  return gain(square, variance, scale) / scale;
}

double noise_scale(std::span<const NoiseAverages> groups, double base_batch) {
  const double square = mean_gradient_square(groups);
  const double variance = gradient_variance(groups);
  if (variance == 0) return 0;
  return square > 0 ? base_batch * variance / square : std::numeric_limits<double>::infinity();
}

}  // namespace bellows::trainer
