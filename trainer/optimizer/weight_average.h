// SPDX-License-Identifier: Apache-2.0
// Exponential moving averages of the parameters (Polyak and Juditsky, 1992), with which a model is
// evaluated.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/optimizer/optimizer.h"

namespace bellows::trainer {

/// average = d average + (1 - d) parameter after each update, with d = decay^scale: they reach back
/// over as many samples at every batch, about base batch / (1 - decay). The first update sets them
/// to the parameters, as torch.optim.swa_utils.AveragedModel does.
class WeightAverage {
 public:
  /// With a decay of 0 nothing is kept.
  WeightAverage(const NamedTensors& parameters, double decay);
  bool kept() const { return !tensors_.empty(); }
  /// By the names of the parameters; may be written to.
  const NamedTensors& tensors() const { return tensors_; }
  /// After the optimizer's update number `updates` (from 1 on), with a batch of `scale` base
  /// batches.
  void update(std::int64_t updates, double scale);
  /// Where there were none: begins with the present parameters.
  void begin();

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> averages_;
  NamedTensors tensors_;
  double decay_;
};

/// While it exists the parameters have the values of the averages, if such are kept. Nothing is
/// copied: the parameters' own memory stays as it is.
class AveragesInUse {
 public:
  AveragesInUse(const NamedTensors& parameters, const WeightAverage& average);
  AveragesInUse(const AveragesInUse&) = delete;
  AveragesInUse& operator=(const AveragesInUse&) = delete;
  ~AveragesInUse();

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> own_;
};

}  // namespace bellows::trainer
