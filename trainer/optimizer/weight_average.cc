// SPDX-License-Identifier: Apache-2.0
#include "trainer/optimizer/weight_average.h"

#include <cmath>

namespace bellows::trainer {

WeightAverage::WeightAverage(const NamedTensors& parameters, double decay) : decay_(decay) {
  if (decay == 0) return;
  for (const auto& [name, parameter] : parameters) {
    parameters_.push_back(parameter.detach());
    averages_.push_back(parameter.detach().clone());
    tensors_.emplace_back(name, averages_.back());
  }
}

void WeightAverage::begin() {
  for (std::size_t i = 0; i < averages_.size(); ++i) averages_[i].copy_(parameters_[i]);
}

void WeightAverage::update(std::int64_t updates, double scale) {
  if (!kept()) return;
  const torch::NoGradGuard no_grad;
  if (updates <= 1) return begin();
  at::_foreach_lerp_(averages_, parameters_, 1 - std::pow(decay_, scale));
}

AveragesInUse::AveragesInUse(const NamedTensors& parameters, const WeightAverage& average) {
  if (!average.kept()) return;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters_.push_back(parameters[i].second);
    own_.push_back(parameters_.back().detach());
    parameters_.back().set_data(average.tensors()[i].second);
  }
}

AveragesInUse::~AveragesInUse() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_data(own_[i]);
}

}  // namespace bellows::trainer
