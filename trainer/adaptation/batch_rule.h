// SPDX-License-Identifier: Apache-2.0
// How the batch of the whole job follows the number of ranks, and in how many passes a rank works
// through its share of it.
#pragma once

#include <cstdint>

#include "trainer/options/options.h"

namespace bellows::trainer {

/// What a step takes.
struct BatchPlan {
  std::int64_t batch = 0;         // of all ranks together
  std::int64_t micro_batch = 0;   // samples that a rank works on at once, at most
  std::int64_t accumulation = 0;  // passes of the rank with most samples beyond the first
  bool operator==(const BatchPlan&) const = default;
};

/// The batch of a --batch-rule that is a function of the ranks. `rank_batch` is --rank-batch, or
/// for per-rank what it was taken for at the start of the run (default_rank_batch).
/// - fixed: --batch (strong scaling).
/// - per-rank: ranks * rank_batch (weak scaling, as with Horovod and torchrun).
/// - hybrid: --batch as long as each rank has rank_batch samples of it, so long that it works
///   efficiently, and ranks * rank_batch beyond (Hu et al., "Elan", ICDCS 2020, section IV: strong
///   scaling first, then weak).
/// With per-rank and hybrid a rank has at least the least of --micro-batch-bounds; the batch stays
/// below --max-batch.
std::int64_t batch_for(const Options& options, std::int64_t rank_batch, int ranks);

/// `batch` within --max-batch, in passes of at most `micro_batch` (0: what options make of it), and
/// of at most `fits` (0: no such bound), which goes before all options.
BatchPlan make_plan(const Options& options, std::int64_t batch, std::int64_t micro_batch, int ranks,
                    std::int64_t fits = 0);

/// How a rank works through `share` samples: in passes of --micro-batch, or in the least number of
/// equal passes that the most of --micro-batch-bounds allows.
BatchPlan with_passes(const Options& options, std::int64_t batch, int ranks);

/// For a run that begins with `ranks`: each rank's part of --batch, rounded up.
std::int64_t default_rank_batch(const Options& options, int ranks);

/// Passes of all ranks together over `batch` samples: those of the micro-gradients that differ.
std::int64_t count_passes(std::int64_t batch, std::int64_t micro_batch, int ranks);

}  // namespace bellows::trainer
