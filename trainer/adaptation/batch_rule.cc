// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/batch_rule.h"

#include <algorithm>

#include "trainer/data/sampler.h"

namespace bellows::trainer {

namespace {

std::int64_t over(std::int64_t count, std::int64_t parts) { return (count + parts - 1) / parts; }

}  // namespace

BatchPlan with_passes(const Options& options, std::int64_t batch, int ranks) {
  const std::int64_t share = over(batch, ranks);
  std::int64_t passes = 1;
  BatchPlan plan{batch, share, 0};
  if (options.micro_batch > 0) {
    plan.micro_batch = options.micro_batch;
    passes = over(share, options.micro_batch);
  } else if (options.micro_batch_most > 0) {
    passes = over(share, options.micro_batch_most);
    plan.micro_batch = over(share, passes);
  }
  plan.accumulation = passes - 1;
  return plan;
}

std::int64_t batch_for(const Options& options, std::int64_t rank_batch, int ranks) {
  if (options.batch_rule == "fixed") return options.batch;
  std::int64_t batch = std::max(rank_batch, options.micro_batch_least) * ranks;
  if (options.batch_rule == "hybrid") batch = std::max(batch, options.batch);
  return options.max_batch > 0 ? std::min(batch, options.max_batch) : batch;
}

BatchPlan make_plan(const Options& options, std::int64_t batch, std::int64_t micro_batch, int ranks,
                    std::int64_t fits) {
  if (options.max_batch > 0) batch = std::min(batch, options.max_batch);
  BatchPlan plan = with_passes(options, std::max<std::int64_t>(1, batch), ranks);
  micro_batch = std::max(micro_batch, micro_batch > 0 ? options.micro_batch_least : 0);
  if (fits > 0 && (micro_batch <= 0 || fits < micro_batch)) micro_batch = fits;
  if (micro_batch <= 0 || micro_batch >= plan.micro_batch) return plan;
  const std::int64_t share = over(plan.batch, ranks);
  const std::int64_t passes = over(share, micro_batch);
  return {plan.batch, over(share, passes), passes - 1};
}

std::int64_t default_rank_batch(const Options& options, int ranks) {
  return options.rank_batch > 0 ? options.rank_batch : over(options.batch, ranks);
}

std::int64_t count_passes(std::int64_t batch, std::int64_t micro_batch, int ranks) {
  std::int64_t passes = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto own = share({0, static_cast<std::uint64_t>(batch)}, rank, ranks).size();
    passes += over(static_cast<std::int64_t>(own), std::max<std::int64_t>(1, micro_batch));
  }
  return passes;
}

}  // namespace bellows::trainer
