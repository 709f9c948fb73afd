// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/training_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "trainer/hash.h"
#include "trainer/team/team.h"

namespace bellows::trainer {

void Sums::add(const Sums& other) {
  loss += other.loss;
  correct += other.correct;
  targets += other.targets;
}

namespace {

NamedTensors copies_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

std::vector<torch::Tensor> without_names(const NamedTensors& tensors) {
  std::vector<torch::Tensor> all;
  for (const auto& [name, tensor] : tensors) all.push_back(tensor);
  return all;
}

std::string kind_of(const torch::Tensor& tensor) {
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes().vec(), "x"));
}

torch::Tensor generator_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

std::uint64_t hash_of_all(const NamedTensors& tensors) {
  std::uint64_t hash = 0;
  for (const auto& [name, one] : tensors) {
    const torch::Tensor tensor = one.detach().cpu().contiguous();
    hash = mix64(hash, hash_of(std::span(static_cast<const std::byte*>(tensor.const_data_ptr()),
                                         tensor.nbytes())));
  }
  return hash;
}

// Both precisions begin with the same numbers.
std::shared_ptr<Model> prepared(std::shared_ptr<Model> model, const Options& options,
                                const torch::Device& device) {
  model->to(device);
  if (options.precision == "double") model->to(torch::kFloat64);
  return model;
}

}  // namespace

TrainingState::TrainingState(const Options& options, const Dataset& dataset,
                             const torch::Device& device)
    : model(prepared(make_model(options, dataset.shape()), options, device)),
      parameters(model->trained()),
      buffers(copies_of(model->others())),
      generator(generator_state()),
      optimizer(make_optimizer(options, parameters)),
      average(parameters, options.ema),
      sampler(options.seed, dataset.size(Split::kTrain)) {
  for (const auto& [name, parameter] : parameters) memory_.push_back(parameter.detach());
  if (options.measures_noise()) norms = std::make_unique<PassNorms>(parameters, *optimizer);
}

TrainingState::TrainingState(const Options& options, NamedTensors trained,
                             const NamedTensors& others, std::unique_ptr<Optimizer> updates,
                             std::uint64_t training_samples)
    : parameters(std::move(trained)),
      buffers(copies_of(others)),
      generator(generator_state()),
      optimizer(std::move(updates)),
      average(parameters, 0),
      sampler(options.seed, training_samples),
      program_buffers_(without_names(others)) {
  for (const auto& [name, parameter] : parameters) memory_.push_back(parameter.detach());
  if (options.measures_noise()) norms = std::make_unique<PassNorms>(parameters, *optimizer);
}

std::vector<torch::Tensor> TrainingState::model_buffers() const {
  if (!model || buffers.empty()) return program_buffers_;
  std::vector<torch::Tensor> now = without_names(model->others());
  for (std::size_t i = 0; i < now.size(); ++i)
    if (const auto& [name, before] = buffers[i];
        now[i].sizes() != before.sizes() || now[i].scalar_type() != before.scalar_type())
      throw std::runtime_error(
          fmt::format("the model has made {} of its buffer {}, which was {}: it has to keep shape "
                      "and type",
                      kind_of(now[i]), name, kind_of(before)));
  return now;
}

void TrainingState::begin_step() {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> own = model_buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) own[i].copy_(buffers[i].second);
  at::Generator libtorch = at::detail::getDefaultCPUGenerator();
  libtorch.set_state(generator);
}

void TrainingState::update_buffers() {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> own = model_buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].second.copy_(own[i]);
  generator.copy_(generator_state());
}

std::vector<torch::Tensor> TrainingState::tensors() const {
  std::vector<torch::Tensor> all{generator};
  for (const auto& [name, tensor] : buffers) all.push_back(tensor);
  all.insert(all.end(), memory_.begin(), memory_.end());
  for (const NamedTensors* group : {&optimizer->state(), &average.tensors()})
    for (const auto& [name, tensor] : *group) all.push_back(tensor);
  return all;
}

Standing TrainingState::standing(const Options& options) const {
  return trainer::standing(options, adaptation.progress, sampler.position(), sampler.size());
}

Counters TrainingState::counters() const {
  return {sampler.position().pass,
          sampler.position().offset,
          samples,
          step,
          optimizer->updates(),
          pass_sums,
          adaptation};
}

void TrainingState::set_counters(const Counters& counters) {
  sampler.seek({counters.pass, counters.offset});
  samples = counters.samples;
  step = counters.step;
  optimizer->set_updates(counters.updates);
  pass_sums = counters.pass_sums;
  adaptation = counters.adaptation;
}

std::uint64_t TrainingState::parameter_hash() const {
  return mix64(mix64(hash_of_all(parameters), hash_of_all(buffers)),
               hash_of_all(average.tensors()));
}

std::uint64_t TrainingState::common_hash() const {
  const Counters words = counters();
  return mix64(mix64(parameter_hash(), hash_of_all(optimizer->state())),
               hash_of(std::as_bytes(std::span(&words, 1))));
}

void replicate(TrainingState& state, Team& team, int root) {
  const Counters own = state.counters();
  std::string words(sizeof own, '\0');
  std::memcpy(words.data(), &own, sizeof own);
  words = team.broadcast(words, root);
  Counters counters;
  std::memcpy(&counters, words.data(), sizeof counters);
  state.set_counters(counters);
  if (team.rank() != root) state.previous = {};
  team.broadcast(state.tensors(), root);
}

}  // namespace bellows::trainer
