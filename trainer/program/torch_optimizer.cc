// SPDX-License-Identifier: Apache-2.0
#include "trainer/program/torch_optimizer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

namespace optim = torch::optim;

template <typename T>
bool is(const optim::Optimizer& optimizer) {
  return dynamic_cast<const T*>(&optimizer) != nullptr;
}

torch::Tensor zeros(const torch::Tensor& like) { return torch::zeros_like(like.detach()); }

}  // namespace

std::string kind_of(const optim::Optimizer& optimizer) {
  if (is<optim::SGD>(optimizer)) return "sgd";
  if (is<optim::Adam>(optimizer)) return "adam";
  if (is<optim::AdamW>(optimizer)) return "adamw";
  if (is<optim::RMSprop>(optimizer)) return "rmsprop";
  if (is<optim::Adagrad>(optimizer)) return "adagrad";
  throw UsageError("this optimizer cannot be used: take SGD, Adam, AdamW, RMSprop or Adagrad");
}

TorchOptimizer::TorchOptimizer(const NamedTensors& parameters, optim::Optimizer& wrapped)
    : Optimizer(parameters, groups_of(parameters, wrapped)),
      wrapped_(wrapped),
      adam_(kind_of(wrapped).starts_with("adam")),
      options_(parameters.size(), nullptr) {
  for (std::size_t i = 0; i < groups_.size(); ++i)
    for (const std::size_t member : groups_[i].members)
      options_[member] = &wrapped.param_groups()[i].options();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (options_[i] != nullptr) add_state(parameters[i].first, parameters[i].second, *options_[i]);
  base_rate_ = wrapped.param_groups().front().options().get_lr();
  if (!(base_rate_ > 0))
    throw UsageError("the learning rate of the optimizer's first group must be above 0");
}

std::vector<ParameterGroup> TorchOptimizer::groups_of(const NamedTensors& parameters,
                                                      const optim::Optimizer& wrapped) {
  std::vector<ParameterGroup> groups;
  for (const auto& group : wrapped.param_groups()) {
    ParameterGroup& own = groups.emplace_back();
    for (const torch::Tensor& parameter : group.params()) {
      if (!parameter.requires_grad()) continue;
      const auto at = std::find_if(parameters.begin(), parameters.end(), [&](const auto& named) {
        return named.second.is_same(parameter);
      });
      if (at == parameters.end())
        throw UsageError("the optimizer has a parameter that the model does not have");
      own.members.push_back(static_cast<std::size_t>(at - parameters.begin()));
    }
  }
  return groups;
}

void TorchOptimizer::add_state(const std::string& name, const torch::Tensor& parameter,
                               const optim::OptimizerOptions& options) {
  auto& slot = wrapped_.state()[parameter.unsafeGetTensorImpl()];
  // Keeps what the optimizer may have already.
  const auto state = [&]<typename T>(std::unique_ptr<T> fresh) -> T& {
    if (!slot) slot = std::move(fresh);
    return static_cast<T&>(*slot);
  };
  const auto add = [&](const char* what, const torch::Tensor& tensor) {
    this->Optimizer::add(name + "." + what, tensor);
    return tensor;
  };
  if (const auto* sgd = dynamic_cast<const optim::SGDOptions*>(&options)) {
    if (sgd->dampening() != 0) throw UsageError("SGD with dampening cannot be used");
    if (sgd->momentum() == 0) return;
    auto& own = state(std::make_unique<optim::SGDParamState>());
    if (!own.momentum_buffer().defined()) own.momentum_buffer(zeros(parameter));
    add("momentum_buffer", own.momentum_buffer());
    return;
  }
  const auto moments = [&](auto& own, bool amsgrad) {
    if (!own.exp_avg().defined()) own.exp_avg(zeros(parameter));
    if (!own.exp_avg_sq().defined()) own.exp_avg_sq(zeros(parameter));
    add("exp_avg", own.exp_avg());
    add("exp_avg_sq", own.exp_avg_sq());
    if (amsgrad) {
      if (!own.max_exp_avg_sq().defined()) own.max_exp_avg_sq(zeros(parameter));
      const torch::Tensor most = add("max_exp_avg_sq", own.max_exp_avg_sq());
    }
    counts_.emplace_back([&own](std::int64_t steps) { own.step(steps); });
  };
  if (const auto* adam = dynamic_cast<const optim::AdamOptions*>(&options))
    return moments(state(std::make_unique<optim::AdamParamState>()), adam->amsgrad());
  if (const auto* adam = dynamic_cast<const optim::AdamWOptions*>(&options))
    return moments(state(std::make_unique<optim::AdamWParamState>()), adam->amsgrad());
  if (const auto* rms = dynamic_cast<const optim::RMSpropOptions*>(&options)) {
    auto& own = state(std::make_unique<optim::RMSpropParamState>());
    if (!own.square_avg().defined()) own.square_avg(zeros(parameter));
    add("square_avg", own.square_avg());
    if (rms->momentum() > 0) {
      if (!own.momentum_buffer().defined()) own.momentum_buffer(zeros(parameter));
      add("momentum_buffer", own.momentum_buffer());
    }
    if (rms->centered()) {
      if (!own.grad_avg().defined()) own.grad_avg(zeros(parameter));
      add("grad_avg", own.grad_avg());
    }
    counts_.emplace_back([&own](std::int64_t steps) { own.step(steps); });
    return;
  }
  if (dynamic_cast<const optim::AdagradOptions*>(&options) == nullptr)
    throw UsageError("the optimizer has groups of a kind that is not its own");
  // Made by the optimizer's constructor.
  auto& own = state(std::make_unique<optim::AdagradParamState>());
  if (!own.sum().defined()) own.sum(zeros(parameter));
  add("sum", own.sum());
  counts_.emplace_back([&own](std::int64_t steps) { own.step(steps); });
}

void TorchOptimizer::step(std::span<const double> rates) {
  for (const auto& count : counts_) count(updates_);
  auto& groups = wrapped_.param_groups();
  std::vector<double> own;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    own.push_back(groups[i].options().get_lr());
    groups[i].options().set_lr(own.back() * rate_of(i, rates) / base_rate_);
  }
  wrapped_.step();
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(own[i]);
  ++updates_;
}

Preconditioner TorchOptimizer::preconditioner(std::size_t parameter) const {
  if (!adam_ || options_[parameter] == nullptr) return {};
  const torch::NoGradGuard no_grad;
  const auto& slot = wrapped_.state().at(parameters_[parameter].unsafeGetTensorImpl());
  const auto divisor = [&](const torch::Tensor& square, double beta2, double epsilon) {
    const auto t = static_cast<double>(std::max<std::int64_t>(1, updates_));
    return Preconditioner{square.sqrt().div_(std::sqrt(1 - std::pow(beta2, t))).add_(epsilon)};
  };
  if (const auto* adam = dynamic_cast<const optim::AdamOptions*>(options_[parameter]))
    return divisor(static_cast<const optim::AdamParamState&>(*slot).exp_avg_sq(),
                   std::get<1>(adam->betas()), adam->eps());
  const auto& adamw = dynamic_cast<const optim::AdamWOptions&>(*options_[parameter]);
  return divisor(static_cast<const optim::AdamWParamState&>(*slot).exp_avg_sq(),
                 std::get<1>(adamw.betas()), adamw.eps());
}

bool TorchOptimizer::gradients_compare() const { return !adam_ || updates_ >= 5; }

}  // namespace bellows::trainer
