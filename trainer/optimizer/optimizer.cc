// SPDX-License-Identifier: Apache-2.0
#include "trainer/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/errors.h"

namespace bellows::trainer {

Optimizer::Optimizer(const NamedTensors& parameters, std::vector<ParameterGroup> groups)
    : groups_(std::move(groups)) {
  for (const auto& [name, tensor] : parameters) {
    names_.push_back(name);
    parameters_.push_back(tensor);
  }
}

std::vector<torch::Tensor> Optimizer::add_slot(const std::string& name) {
  std::vector<torch::Tensor> slot;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    slot.push_back(torch::zeros_like(parameters_[i].detach()));
    state_.emplace_back(names_[i] + "." + name, slot.back());
  }
  return slot;
}

std::vector<torch::Tensor> Optimizer::gradients() const {
  std::vector<torch::Tensor> gradients;
  gradients.reserve(parameters_.size());
  for (const auto& p : parameters_) gradients.push_back(p.grad());
  return gradients;
}

std::vector<torch::Tensor> Optimizer::of(const ParameterGroup& group,
                                         const std::vector<torch::Tensor>& all) {
  std::vector<torch::Tensor> members;
  members.reserve(group.members.size());
  for (const std::size_t i : group.members) members.push_back(all[i]);
  return members;
}

void Optimizer::add_decay(std::vector<torch::Tensor>& gradients, double decay) const {
  if (decay == 0) return;
  for (const ParameterGroup& group : groups_) {
    if (!group.decays) continue;
    auto sums = at::_foreach_add(of(group, gradients), of(group, parameters_), decay);
    for (std::size_t i = 0; i < sums.size(); ++i) gradients[group.members[i]] = std::move(sums[i]);
  }
}

namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const NamedTensors& parameters, const Options& options)
      : Optimizer(parameters, parameter_groups(options, parameters)),
        momentum_(options.momentum),
        nesterov_(options.nesterov),
        decay_(options.weight_decay) {
    if (momentum_ > 0) velocity_ = add_slot("momentum");
  }

  void step(std::span<const double> rates) override {
    const torch::NoGradGuard no_grad;
    ++updates_;
    std::vector<torch::Tensor> g = gradients();
    add_decay(g, decay_);
    if (!velocity_.empty()) {
      at::_foreach_mul_(velocity_, momentum_);
      at::_foreach_add_(velocity_, g);
      g = nesterov_ ? at::_foreach_add(g, velocity_, momentum_) : velocity_;
    }
    for (std::size_t i = 0; i < groups_.size(); ++i)
      at::_foreach_add_(of(groups_[i], parameters_), of(groups_[i], g), -rate_of(i, rates));
  }

 private:
  double momentum_;
  bool nesterov_;
  double decay_;
  std::vector<torch::Tensor> velocity_;
};

/// Kingma and Ba, ICLR 2015; with `decoupled` decay Loshchilov and Hutter, ICLR 2019.
class Adam : public Optimizer {
 public:
  Adam(const NamedTensors& parameters, const Options& options, bool decoupled)
      : Optimizer(parameters, parameter_groups(options, parameters)),
        beta1_(options.beta1),
        beta2_(options.beta2),
        epsilon_(options.epsilon),
        decay_(options.weight_decay),
        decoupled_(decoupled),
        mean_(add_slot("mean")),
        square_(add_slot("square")) {}

  void step(std::span<const double> rates) override {
    const torch::NoGradGuard no_grad;
    ++updates_;
    std::vector<torch::Tensor> g = gradients();
    if (!decoupled_) add_decay(g, decay_);
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (decay_ != 0 && decoupled_ && groups_[i].decays)
        at::_foreach_mul_(of(groups_[i], parameters_), 1 - rate_of(i, rates) * decay_);
    at::_foreach_mul_(mean_, beta1_);
    at::_foreach_add_(mean_, g, 1 - beta1_);
    at::_foreach_mul_(square_, beta2_);
    at::_foreach_addcmul_(square_, g, g, 1 - beta2_);
    const auto t = static_cast<double>(updates_);
    std::vector<torch::Tensor> scale = divisors();
    for (std::size_t i = 0; i < groups_.size(); ++i)
      at::_foreach_addcdiv_(of(groups_[i], parameters_), of(groups_[i], mean_),
                            of(groups_[i], scale), -rate_of(i, rates) / (1 - std::pow(beta1_, t)));
    if (divisors_at_ < 0) return;
    divisors_ = std::move(scale);
    divisors_at_ = updates_;
  }

  Preconditioner preconditioner(std::size_t parameter) const override {
    const torch::NoGradGuard no_grad;
    if (divisors_at_ != updates_) divisors_ = divisors();
    divisors_at_ = updates_;
    return {divisors_[parameter]};
  }
  bool gradients_compare() const override { return updates_ >= 5; }

 private:
  /// sqrt(corrected second moment) + epsilon.
  std::vector<torch::Tensor> divisors() const {
    std::vector<torch::Tensor> all = at::_foreach_sqrt(square_);
    const auto t = static_cast<double>(std::max<std::int64_t>(1, updates_));
    at::_foreach_div_(all, std::sqrt(1 - std::pow(beta2_, t)));
    at::_foreach_add_(all, epsilon_);
    return all;
  }

  double beta1_;
  double beta2_;
  double epsilon_;
  double decay_;
  bool decoupled_;
  std::vector<torch::Tensor> mean_;
  std::vector<torch::Tensor> square_;
  // Those of the last update, kept once somebody has asked for them: roots and divisions would cost
  // more than all else that is done with a gradient.
  mutable std::vector<torch::Tensor> divisors_;
  mutable std::int64_t divisors_at_ = -1;  // updates() then
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const Options& options, const NamedTensors& parameters) {
  if (options.optimizer == "sgd") return std::make_unique<Sgd>(parameters, options);
  if (options.optimizer == "adam") return std::make_unique<Adam>(parameters, options, false);
  if (options.optimizer == "adamw") return std::make_unique<Adam>(parameters, options, true);
  throw UsageError("--optimizer " + options.optimizer + ": unknown");
}

double clip_gradients(const NamedTensors& parameters, double limit) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const auto& [name, tensor] : parameters) gradients.push_back(tensor.grad());
  const auto norms = at::_foreach_norm(gradients, 2);
  const double norm = torch::stack(norms).to(torch::kFloat64).norm().item<double>();
  if (norm > limit) at::_foreach_mul_(gradients, limit / norm);
  return norm;
}

}  // namespace bellows::trainer
