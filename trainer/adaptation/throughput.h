// SPDX-License-Identifier: Apache-2.0
// A model of the time of a step, fitted to what has been measured, that says how long it would
// take on other numbers of nodes and ranks and with other batches (Qiao et al., "Pollux", OSDI
// 2021, section 4.2).
#pragma once

#include <cstdint>
#include <span>

namespace bellows::trainer {

/// Mean times of steps of one kind. Seconds, above zero.
struct StepTimes {
  int nodes = 1;
  int ranks = 1;
  double micro_batch = 1;         // samples per rank and pass
  double accumulate_seconds = 0;  // a forward and backward pass alone
  double optimize_seconds = 0;    // the last pass of a step, with the reduction
  double update_seconds = 0;      // what follows: the optimizer. May be zero
};

/// With m samples per pass, s passes before the last, and K ranks:
///   T_accum = alpha_c + beta_c m
///   T_net   = alpha_n + beta_n max(K - 2, e) on several nodes, alpha_r + beta_r max(K - 2, e) on
///             one, about zero for one rank (a ring: its rounds grow with the ranks)
///   T_opt   = (T_accum^gamma + T_net^gamma)^(1 / gamma): gamma is 1 without overlap
///             and 10 with all of it
///   T_step  = s T_accum + T_opt + T_update
/// All in seconds. T_update is not in the paper; where the optimizer is slow beside the passes, one
/// rank would look too fast without it.
struct ThroughputModel {
  double alpha_c = 0.1, beta_c = 0.01;
  double alpha_n = 0.1, beta_n = 0.01;
  double alpha_r = 0.1, beta_r = 0.01;
  double gamma = 1;
  double update = 0;
  bool operator==(const ThroughputModel&) const = default;

  double accumulate_seconds(double micro_batch) const;
  double network_seconds(int nodes, int ranks) const;
  double optimize_seconds(int nodes, int ranks, double micro_batch) const;
  double step_seconds(int nodes, int ranks, double micro_batch, std::int64_t accumulation) const;
  /// Samples per second over all ranks.
  double throughput(int nodes, int ranks, double micro_batch, std::int64_t accumulation) const;
};

/// Minimises RMSE(log T_accum) + RMSE(log T_opt) + 1e-3 (gamma - 1)^2 + 1e-2 ((beta_n / alpha_n)^2
/// + (beta_r / alpha_r)^2) within bounds (L-BFGS of NLopt, over the logarithms of the alphas and
/// betas). What nothing has been seen of is taken for cheap, so that it gets tried: with one size
/// of passes alpha_c is half of their time, networks nobody has used cost nothing, and without more
/// than two ranks their number costs nothing. Without several nodes, their terms are 1.1 times
/// those of one node. T_update is the mean of those seen. Throws std::invalid_argument without data
/// or with times that are not positive.
ThroughputModel fit_throughput(std::span<const StepTimes> seen);

}  // namespace bellows::trainer
