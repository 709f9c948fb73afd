// SPDX-License-Identifier: Apache-2.0
// How noisy the gradients are: what batches are worth, and what AdaScale goes by.
//
// Samples' gradients have the mean G and the covariance C. A batch of B samples is worked through
// in n passes of b_i samples, w_i = b_i / B, whose mean gradients are g_i; the mean of the batch is
// m = sum(w_i g_i). Samples that are independent draws give
//   E|g_i|^2 = |G|^2 + tr(C) / b_i      and      E|m|^2 = |G|^2 + tr(C) / B.
// The mean of the |g_i|^2, weighted by samples, is S = sum(w_i |g_i|^2), and since w_i / b_i = 1/B,
//   E S = |G|^2 + n tr(C) / B,
// whatever the shares are. So without bias
//   |G|^2    = (n |m|^2 - S) / (n - 1),
//   tr(C)/B0 = (S - |m|^2) * scale / (n - 1),   scale = B / B0, B0 the base batch.
// With equal shares these are the formulas of McCandlish et al., "An Empirical Model of Large-Batch
// Training", 2018, appendix A.1, and of Pollux (Qiao et al., OSDI 2021, section 4.1). A pass over
// the data draws without replacement, which lessens the variance by the share of the data that a
// batch is.
//
// With a single pass (n = 1) nothing can be said; instead the gradients of this step and of the one
// before are taken as two passes of one batch, as AdaptDL does. They belong to parameters that are
// one update apart, so these estimates are biased, and are forgotten when better ones come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace bellows::trainer {

/// What a step has measured of one group of parameters.
struct MicroGradients {
  double passes = 0;          // n
  double mean_square = 0;     // S
  double square_of_mean = 0;  // |m|^2
  double scale = 1;           // B / B0
  bool differenced = false;   // of two steps
  double interval = 1;        // steps since the last measurement: for so many it stands
};

struct NoiseEstimate {
  double square = 0;    // |G|^2; may be negative
  double variance = 0;  // tr(C) / B0
};

/// Nothing when n < 2, or when something is not finite.
std::optional<NoiseEstimate> estimate_noise(const MicroGradients& measured);

/// The two of one batch and the next one: `squares` of their mean gradients, `batches` in samples,
/// and the dot product of the gradients.
MicroGradients differenced(double first_square, double second_square, double dot,
                           double first_batch, double second_batch, double base_batch);

/// Moving averages of the estimates, of one group of parameters; as bytes they are part of the
/// state of a training. With a decay of 0.999^scale per step (of all, not only those that are
/// measured) they reach back over the same number
/// of samples at every scale; divided by the sum of the weights, they have no bias to zero.
struct NoiseAverages {
  double square = 0;    // before the division
  double variance = 0;  // likewise
  double weight = 0;
  std::int64_t estimates = 0;    // taken
  std::int64_t skipped = 0;      // of steps with a gradient that was not finite
  std::int64_t differenced = 0;  // 1: of estimates from two steps
  bool operator==(const NoiseAverages&) const = default;

  void add(const MicroGradients& measured);
};

/// The groups of parameters that are told apart; further ones count to the last. What has not been
/// measured has weight 0.
inline constexpr std::size_t kNoiseGroups = 4;
using GroupAverages = std::array<NoiseAverages, kNoiseGroups>;

/// Where one group's gradient is not finite the step says nothing of any.
void add(GroupAverages& averages, std::span<const MicroGradients> measured);

/// Over all groups; each group's averages count as zero where they are negative.
double mean_gradient_square(std::span<const NoiseAverages> groups);
double gradient_variance(std::span<const NoiseAverages> groups);  // tr(C) / B0

/// Steps of the base batch that one step at `scale` is worth: (v + s) / (v / scale + s), from 1 to
/// `scale` (Johnson et al., ICML 2020, section 3). 1 while nothing is known.
double gain(double square, double variance, double scale);
double gain(std::span<const NoiseAverages> groups, double scale);
/// Progress per sample, compared with the base batch: gain / scale (Qiao et al., OSDI 2021).
double efficiency(double square, double variance, double scale);
/// The gradient noise scale in samples, B0 v / s: batches well below it lose little by growing.
/// Infinite where the mean gradient cannot be told from zero, 0 while nothing is known.
double noise_scale(std::span<const NoiseAverages> groups, double base_batch);

}  // namespace bellows::trainer
