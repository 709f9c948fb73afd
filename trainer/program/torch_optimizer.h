// SPDX-License-Identifier: Apache-2.0
// An optimizer of torch::optim as one of ours.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainer/optimizer/optimizer.h"

namespace bellows::trainer {

/// "sgd", "adam", "adamw", "rmsprop" or "adagrad". Throws UsageError for others.
std::string kind_of(const torch::optim::Optimizer& optimizer);

/// Its state is made at once, as the optimizer's own first step would make it, so that it has fixed
/// tensors from the start.
class TorchOptimizer : public Optimizer {
 public:
  /// `parameters` by the names they have in the model; each of the optimizer's that requires a
  /// gradient must be there. `wrapped` must outlive this. Throws UsageError.
  TorchOptimizer(const NamedTensors& parameters, torch::optim::Optimizer& wrapped);

  /// The learning rate that the first group had at the start: step() takes this one for granted.
  double base_rate() const { return base_rate_; }
  /// Each group steps with its own rate of the moment times that of `rates` / base_rate().
  using Optimizer::step;
  void step(std::span<const double> rates) override;
  Preconditioner preconditioner(std::size_t parameter) const override;
  bool gradients_compare() const override;

 private:
  /// Of its groups; `wrapped` must have no parameter that requires a gradient beside `parameters`.
  static std::vector<ParameterGroup> groups_of(const NamedTensors& parameters,
                                               const torch::optim::Optimizer& wrapped);
  void add_state(const std::string& name, const torch::Tensor& parameter,
                 const torch::optim::OptimizerOptions& options);
  torch::optim::Optimizer& wrapped_;
  double base_rate_ = 0;
  bool adam_ = false;
  // What brings the optimizer's own counts of steps up to date, one for each parameter.
  std::vector<std::function<void(std::int64_t)>> counts_;
  std::vector<const torch::optim::OptimizerOptions*> options_;  // of each parameter's group
};

}  // namespace bellows::trainer
