// SPDX-License-Identifier: Apache-2.0
// What a training tells the scheduler of its size: where it would do best, and what a node more or
// less would change, as its model of goodput has it (goodput.h).
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "protocol/size_hints.h"
#include "trainer/adaptation/adaptation.h"
#include "trainer/adaptation/batch_rule.h"
#include "trainer/adaptation/goodput.h"

namespace bellows::trainer {

/// Where a training stands, and the sizes it may have. A node more has as many ranks as the nodes
/// have now, rounded up.
struct Standpoint {
  int nodes = 1;
  int ranks = 1;
  int least_ranks = 1;
  int most_ranks = 1;
};

/// What the batch would be with so many ranks.
using PlanFor = std::function<BatchPlan(int nodes, int ranks)>;

/// Goodput of a batch that is worked through so. Where nothing is known of gradient noise
/// (Goodput::square and ::variance are zero) a sample counts as one.
double predicted_goodput(const Goodput& goodput, int nodes, int ranks, const BatchPlan& plan);

/// By brute force over the sizes within the bounds, kMostNodes at most. The economic size is the
/// one at which the policy of that name would stop: from the least one on, as long as
/// (g(n+1) - g(n)) / (g(n) / n) >= kEconomicGain.
SizeHints find_hints(const Goodput& goodput, const Standpoint& at, const PlanFor& plan_for);

inline constexpr int kMostNodes = 1024;

/// The hints of a training; nothing while too little is known: steps of the present size, and of
/// some size with more than one rank; passes of two numbers of samples, unless that number is the
/// same at all sizes (--batch-rule per-rank); for --batch-rule adaptive gradient noise. A --policy
/// is taken to leave the batch as it is.
std::optional<SizeHints> hints_of(const Options& options, const Adaptation& now,
                                  const Standpoint& at);

/// In one world. Fitting a model takes some milliseconds: it is done every kPause, and before
/// anything is known every kFirstPause.
class PacedHints {
 public:
  /// The newest there are.
  const std::optional<SizeHints>& look(const Options& options, const Adaptation& now,
                                       const Standpoint& at);

 private:
  static constexpr std::chrono::seconds kPause{30}, kFirstPause{2};
  using Clock = std::chrono::steady_clock;
  std::optional<SizeHints> hints_;
  std::optional<Clock::time_point> looked_;
};

}  // namespace bellows::trainer
