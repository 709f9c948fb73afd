// SPDX-License-Identifier: Apache-2.0
// The training of a network that --model names on what --data names: bellows-train's.
#pragma once

#include <memory>
#include <optional>

#include "trainer/options/options.h"
#include "trainer/workload.h"

namespace bellows::trainer {

class NetworkWorkload : public Workload {
 public:
  explicit NetworkWorkload(const Options& options) : options_(options) {}

  std::unique_ptr<TrainingState> load(const torch::Device& device) override;
  const Dataset& dataset() const override { return *dataset_; }
  void warm_up() override;
  Outcome train(Training& training) override;
  std::optional<Sums> evaluate(Team& team) override;

 private:
  const Options& options_;
  torch::Device device_ = torch::kCPU;
  std::unique_ptr<Dataset> dataset_;
  TrainingState* state_ = nullptr;
};

}  // namespace bellows::trainer
