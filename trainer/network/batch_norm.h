// SPDX-License-Identifier: Apache-2.0
// Batch normalisation (Ioffe and Szegedy, ICML 2015) where a batch is shared among ranks: by the
// statistics of the samples that a rank has at hand, or of those that all ranks have at hand.
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/torch_headers.h"

namespace bellows::trainer {

/// Whose samples the layers of a model take their statistics of, in training.
struct BatchScope {
  /// The ranks whose samples are looked at together; null: this rank alone.
  c10::intrusive_ptr<c10d::Backend> team;
  /// False where the samples at hand only stand in, since a rank has none: they count nowhere.
  bool counts = true;
};

/// torch::nn::BatchNorm2d with the same parameters and buffers, and the same results with all
/// samples on one rank. In training with a team, forward and backward are collective: each rank
/// must make the same calls in the same order, so all make the same number of passes, and a rank
/// without samples makes one with samples that do not count. An error of a collective leaves
/// forward() or backward() as it was thrown (MpiError).
///
/// One value per channel has no variance: it is normalised by the running statistics, which stay
/// (PyTorch refuses it; a last batch may leave a rank so little). So are samples that do not count.
class BatchNormImpl : public torch::nn::BatchNorm2dImpl {
 public:
  BatchNormImpl(std::int64_t channels, std::shared_ptr<const BatchScope> scope);
  torch::Tensor forward(const torch::Tensor& input);

 private:
  torch::Tensor synchronised(const torch::Tensor& input);
  torch::Tensor by_running_statistics(const torch::Tensor& input) const;
  void update_running_statistics(const torch::Tensor& mean, const torch::Tensor& variance,
                                 double count);

  std::shared_ptr<const BatchScope> scope_;
};
TORCH_MODULE(BatchNorm);

}  // namespace bellows::trainer
