// SPDX-License-Identifier: Apache-2.0
#include "trainer/training_state.h"

#include <boost/json.hpp>
#include <cstring>

#include "trainer/hash.h"
#include "trainer/team.h"

namespace bellows::trainer {

void Sums::add(const Sums& other) {
  loss += other.loss;
  correct += other.correct;
  targets += other.targets;
}

namespace {

NamedTensors parameters_of(const Model& model) {
  NamedTensors named;
  for (const auto& item : model.named_parameters()) named.emplace_back(item.key(), item.value());
  return named;
}

NamedTensors buffers_of(const Model& model) {
  NamedTensors named;
  for (const auto& item : model.named_buffers()) named.emplace_back(item.key(), item.value());
  return named;
}

std::shared_ptr<Model> model_on(const torch::Device& device, std::shared_ptr<Model> model) {
  model->to(device);
  return model;
}

}  // namespace

TrainingState::TrainingState(const Options& options, const Dataset& dataset,
                             const torch::Device& device)
    : model(model_on(device, make_model(options, dataset.shape()))),
      parameters(parameters_of(*model)),
      buffers(buffers_of(*model)),
      optimizer(make_optimizer(options, parameters)),
      sampler(options.seed, dataset.size(Split::kTrain)) {}

std::vector<torch::Tensor> TrainingState::tensors() const {
  std::vector<torch::Tensor> all;
  for (const NamedTensors* group : {&parameters, &buffers, &optimizer->state()})
    for (const auto& [name, tensor] : *group) all.push_back(tensor);
  return all;
}

std::string TrainingState::counters() const {
  // Doubles as they are: Boost.JSON writes and reads them without loss.
  return boost::json::serialize(
      boost::json::object{{"pass", sampler.position().pass},
                          {"offset", sampler.position().offset},
                          {"step", step},
                          {"samples", samples},
                          {"updates", optimizer->updates()},
                          {"sums", {pass_sums.loss, pass_sums.correct, pass_sums.targets}}});
}

void TrainingState::set_counters(const std::string& text) {
  const boost::json::value all = boost::json::parse(text);
  sampler.seek(
      {all.at("pass").to_number<std::uint64_t>(), all.at("offset").to_number<std::uint64_t>()});
  step = all.at("step").to_number<std::int64_t>();
  samples = all.at("samples").to_number<std::uint64_t>();
  optimizer->set_updates(all.at("updates").to_number<std::int64_t>());
  const auto& sums = all.at("sums").as_array();
  pass_sums = {sums[0].to_number<double>(), sums[1].to_number<double>(),
               sums[2].to_number<double>()};
}

std::uint64_t TrainingState::parameter_hash() const {
  std::uint64_t hash = 0;
  for (const auto& [name, parameter] : parameters) {
    const torch::Tensor tensor = parameter.detach().cpu().contiguous();
    const auto* at = static_cast<const std::byte*>(tensor.const_data_ptr());
    std::uint64_t sum = 0;
    // Independent products, so that the processor can overlap them.
    for (std::size_t i = 0; i < tensor.nbytes(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, at + i, std::min(sizeof word, tensor.nbytes() - i));
      sum += mix64(word + i * 0x9e3779b97f4a7c15ULL);
    }
    hash = mix64(hash, sum);
  }
  return hash;
}

void replicate(TrainingState& state, Team& team, int root) {
  state.set_counters(team.broadcast(state.counters(), root));
  team.broadcast(state.tensors(), root);
}

}  // namespace bellows::trainer
