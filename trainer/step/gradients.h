// SPDX-License-Identifier: Apache-2.0
// Sums the gradients of all ranks, in buckets, while the backward pass is still going on.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/optimizer/optimizer.h"
#include "trainer/torch_headers.h"

namespace bellows::trainer {

/// Around c10d::Reducer, with two differences to PyTorch's DistributedDataParallel:
/// - gradients are summed, not averaged: each rank weighs its loss by 1 / samples of the whole
///   batch, so unequal shares give exactly the mean over the batch;
/// - the layout of the buckets is a function of the model and `bucket_bytes` alone and stays. The
///   Reducer would re-plan it after the first backward pass, which changes the order of summation
///   and would give a rank that joins later another layout.
///
/// Every parameter must get a gradient in every reduced backward pass.
class GradientReducer {
 public:
  /// `backend` runs the all-reduces; it must outlive this object's last backward pass.
  GradientReducer(const NamedTensors& parameters, c10::intrusive_ptr<c10d::Backend> backend,
                  std::int64_t bucket_bytes);
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer();

  /// To be called before the backward pass whose end shall leave the sums of all ranks in the
  /// gradients (including what earlier backward passes accumulated). An error in a collective
  /// comes out of backward() as it was thrown (MpiError). `complete` is called during that pass,
  /// when all gradients of this rank are there and the reduction of the last bucket is about to
  /// begin.
  void prepare(std::function<void()> complete = {});

  /// For a backward pass that has failed on this rank alone, after prepare(): passes that follow
  /// only add to the gradients. What was given away until then stays so; it was whole.
  void interrupt();
  /// After those: gives away what was not, from the gradients as they are now, waits for all, and
  /// leaves the sums of all ranks in the gradients. Throws MpiError. Does nothing unless a pass was
  /// interrupted.
  void finish();

  std::size_t buckets() const { return buckets_.size(); }
  /// Whether all of them were handed over since prepare(): not where the loss of the pass does not
  /// depend on some parameter.
  bool complete() const { return !reducer_ || begun_->size() == buckets_.size(); }
  /// When the last bucket of the last reduced backward pass was full. From there on its end only
  /// waits for the other ranks.
  std::chrono::steady_clock::time_point all_given() const { return *given_; }

 private:
  class FixedReducer;
  class SumHook;
  /// A bucket whose reduction has begun: its gradients, one behind the other, become the sums.
  struct Given {
    torch::Tensor flat;
    c10::intrusive_ptr<c10d::Work> work;
  };
  void start();
  void give(std::size_t bucket);
  std::vector<torch::Tensor> views(std::size_t bucket, const torch::Tensor& flat) const;

  NamedTensors parameters_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::int64_t bucket_bytes_;
  std::vector<std::vector<std::size_t>> buckets_;
  // The hook's, too.
  std::shared_ptr<std::vector<Given>> begun_ = std::make_shared<std::vector<Given>>();
  std::shared_ptr<std::function<void()>> complete_ = std::make_shared<std::function<void()>>();
  std::shared_ptr<std::chrono::steady_clock::time_point> given_ =
      std::make_shared<std::chrono::steady_clock::time_point>();
  std::unique_ptr<FixedReducer> reducer_;
};

/// Indices of `parameters` by bucket, in the order in which a backward pass fills them: from the
/// last parameter to the first. A first small bucket lets the reduction start early.
std::vector<std::vector<std::size_t>> plan_buckets(const NamedTensors& parameters,
                                                   std::int64_t bucket_bytes);

}  // namespace bellows::trainer
