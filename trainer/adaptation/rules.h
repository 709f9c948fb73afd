// SPDX-License-Identifier: Apache-2.0
// The policies there are: those of --batch-rule, and what --policy names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/adaptation/policy.h"
#include "trainer/options/options.h"

namespace bellows::trainer {

/// fixed, per-rank, hybrid, adaptive.
const std::vector<std::string>& batch_rule_names();

/// - fixed, per-rank, hybrid: the batch of batch_rule.h.
/// - adaptive: the batch of the highest goodput within --batch and --max-batch by what has been
///   measured (goodput.h), once gradient noise has been estimated kEnoughEstimates times; another
///   one only for more than 5 %.
/// - --policy: the library's. Throws UsageError when it cannot be loaded or is of another version.
std::unique_ptr<Policy> make_policy(const Options& options);

/// Estimates of gradient noise without which no batch is chosen by it: the first ones scatter by
/// more than they are worth.
inline constexpr std::int64_t kEnoughEstimates = 20;

}  // namespace bellows::trainer
