// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/batch.h"

#include <vector>

namespace bellows::trainer {

Batch read_batch(const Dataset& dataset, Split split, std::span<const std::uint64_t> ids,
                 const torch::Device& device) {
  const SampleShape shape = dataset.shape();
  const auto count = static_cast<std::int64_t>(ids.size());
  std::vector<std::int64_t> sizes{count};
  sizes.insert(sizes.end(), shape.input.begin(), shape.input.end());
  Batch batch{torch::empty(sizes, shape.tokens ? torch::kInt64 : torch::kFloat32),
              torch::empty({count * shape.targets()}, torch::kInt64)};
  SampleBuffers out;
  if (shape.tokens)
    out.tokens = batch.inputs.mutable_data_ptr<std::int64_t>();
  else
    out.values = batch.inputs.mutable_data_ptr<float>();
  out.targets = batch.targets.mutable_data_ptr<std::int64_t>();
  dataset.read(split, ids, out);
  return {batch.inputs.to(device), batch.targets.to(device)};
}

Forward run_forward(Model& model, const Batch& batch) {
  // Samples are read as float; tokens stay numbers.
  torch::Tensor logits = model.forward(
      batch.inputs.is_floating_point() ? batch.inputs.to(model.input_type()) : batch.inputs);
  logits = logits.reshape({batch.targets.size(0), -1});
  return {model.loss(logits, batch.targets), logits.detach().argmax(1).eq(batch.targets).sum()};
}

}  // namespace bellows::trainer
