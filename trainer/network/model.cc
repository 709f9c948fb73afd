// SPDX-License-Identifier: Apache-2.0
#include "trainer/network/model.h"

#include <stdexcept>

#include "trainer/errors.h"

namespace bellows::trainer {

Dropout Model::make_dropout(double rate) {
  const int layer = dropouts_++;
  return register_module("dropout" + std::to_string(layer),
                         std::make_shared<DropoutImpl>(rate, layer, draws_));
}

torch::Tensor Model::loss(const torch::Tensor& logits, const torch::Tensor& targets) {
  const auto sum = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
  return torch::nn::functional::cross_entropy(logits, targets, sum);
}

NamedTensors Model::trained() const {
  NamedTensors named;
  for (const auto& item : named_parameters()) named.emplace_back(item.key(), item.value());
  return named;
}

NamedTensors Model::others() const {
  NamedTensors named;
  for (const auto& item : named_buffers()) named.emplace_back(item.key(), item.value());
  return named;
}

std::shared_ptr<Model> make_model(const Options& options, const SampleShape& shape) {
  torch::manual_seed(options.seed);
  if (options.model == "mlp") return make_mlp(options, shape);
  if (options.model == "cnn") return make_cnn(options, shape);
  if (options.model == "resnet18") return make_resnet18(options, shape);
  if (options.model == "transformer") return make_transformer(options, shape);
  if (is_script(options.model)) return make_script_model(options, shape);
  throw UsageError("--model " + options.model + ": unknown");
}

}  // namespace bellows::trainer
