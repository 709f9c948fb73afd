// SPDX-License-Identifier: Apache-2.0
#include "trainer/network/network_workload.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "trainer/step/batch.h"
#include "trainer/step/evaluation.h"
#include "trainer/step/passes.h"
#include "trainer/training.h"

namespace bellows::trainer {

std::unique_ptr<TrainingState> NetworkWorkload::load(const torch::Device& device) {
  device_ = device;
  dataset_ = open_dataset(options_.data, options_.length);
  auto state = std::make_unique<TrainingState>(options_, *dataset_, device);
  state_ = state.get();
  return state;
}

/// Touches neither parameters nor what begin_step() sets.
void NetworkWorkload::warm_up() {
  std::vector<std::uint64_t> ids(std::min<std::uint64_t>(
      {static_cast<std::uint64_t>(options_.batch), kWarmUp, dataset_->size(Split::kTrain)}));
  std::iota(ids.begin(), ids.end(), 0);
  state_->model->draw_for({options_.seed, 0, ids});
  const Batch batch = read_batch(*dataset_, Split::kTrain, ids, device_);
  run_forward(*state_->model, batch).loss.backward();
  reset_gradients(*state_);
}

Outcome NetworkWorkload::train(Training& training) {
  state_->model->train();
  while (true) {
    if (const auto outcome = training.before_step()) return *outcome;
    training.begin_step();
    training.run_passes();
    training.end_step();
  }
}

std::optional<Sums> NetworkWorkload::evaluate(Team& team) {
  return trainer::evaluate(*state_, *dataset_, device_, team);
}

}  // namespace bellows::trainer
