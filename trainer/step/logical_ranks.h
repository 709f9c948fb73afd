// SPDX-License-Identifier: Apache-2.0
// Steps whose result does not depend on the number of ranks, bit for bit: the batch is cut into as
// many parts as there are logical ranks, each part has a gradient of its own, and these are summed
// in the order of a binary tree over the parts, wherever they were computed.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "trainer/step/passes.h"
#include "trainer/team/team.h"

namespace bellows::trainer {

/// The tree over [begin, end): its halves are the trees over [begin, middle) and [middle, end).
std::uint64_t middle_of(Range parts);
/// The largest subtrees of the tree over [0, whole) that make up `own`, in order.
std::vector<Range> subtrees(std::uint64_t whole, Range own);

/// Into how many parts `batch` is cut: none is empty.
std::uint64_t logical_parts(const Options& options, Range batch);

/// Costs, compared with an ordinary step: the parts are small, each rank receives the gradients of
/// all others (about ranks times as much), and the sum begins after the last backward pass.
class LogicalRanks {
 public:
  LogicalRanks(const PassContext& context, Team& team);

  /// Collective. Leaves the sum of all gradients in the gradients, and in the model's buffers the
  /// mean of what the parts made of them. Gives the sums over the batch; `words` is summed over the
  /// ranks beside them. A part is worked through in passes of `micro_batch`.
  /// `squares` becomes the sums over the passes that state.norms measures.
  Sums step(Range batch, std::int64_t micro_batch, std::vector<double>& words,
            std::vector<double>& squares);

 private:
  torch::Tensor gradient_of(Range parts, Range batch, std::int64_t micro_batch,
                            std::span<double> sums);
  torch::Tensor flatten() const;
  torch::Tensor sum(std::uint64_t whole, const std::vector<torch::Tensor>& own);
  void spread(const torch::Tensor& flat, double parts);

  PassContext context_;
  Team& team_;
  std::int64_t fits_ = 0;  // samples at once, where more did not fit into memory
};

}  // namespace bellows::trainer
