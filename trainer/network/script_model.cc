// SPDX-License-Identifier: Apache-2.0
// A network that was written and exported in Python: torch.jit.script(net).save("net.pt").
#include <fmt/format.h>
#include <torch/script.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trainer/errors.h"
#include "trainer/hash.h"
#include "trainer/network/model.h"
#include "trainer/torch_error.h"

namespace bellows::trainer {

namespace {

class ScriptModel : public Model {
 public:
  explicit ScriptModel(torch::jit::Module module)
      : module_(std::move(module)), own_loss_(module_.find_method("loss").has_value()) {
    for (const auto& parameter : module_.named_parameters())
      add(parameter.value.requires_grad() ? trained_ : constants_, parameter.name, parameter.value);
    NamedTensors seen = constants_;
    for (const auto& part : module_.named_modules())
      for (const auto& buffer : part.value.named_buffers(/*recurse=*/false)) {
        const std::size_t before = seen.size();
        const std::string name = part.name.empty() ? buffer.name : part.name + "." + buffer.name;
        add(seen, name, buffer.value);
        if (seen.size() > before) places_.push_back({name, part.value, buffer.name});
      }
  }

  torch::Tensor forward(torch::Tensor input) override {
    return module_.forward({std::move(input)}).toTensor();
  }
  torch::Tensor loss(const torch::Tensor& logits, const torch::Tensor& targets) override {
    if (!own_loss_) return Model::loss(logits, targets);
    const torch::Tensor mean = module_.get_method("loss")({logits, targets}).toTensor();
    return mean * static_cast<double>(targets.numel());
  }
  NamedTensors trained() const override { return trained_; }
  /// A module may assign its buffers anew: what counts is what is in their places.
  NamedTensors others() const override {
    NamedTensors all = constants_;
    for (const Place& place : places_)
      all.emplace_back(place.name, place.owner.attr(place.attribute).toTensor().detach());
    return all;
  }
  at::ScalarType input_type() const override { return trained_.front().second.scalar_type(); }
  /// It draws from libtorch's generator.
  void draw_for(Draws draws) override {
    const std::uint64_t first = draws.samples.empty() ? 0 : draws.samples.front();
    torch::manual_seed(mix64(mix64(draws.seed, draws.pass), first));
  }

  void train(bool on = true) override {
    Model::train(on);
    module_.train(on);
  }
  void to(torch::Device device, bool non_blocking = false) override {
    module_.to(device, non_blocking);
  }
  void to(torch::Dtype dtype, bool non_blocking = false) override {
    module_.to(dtype, non_blocking);
  }
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override {
    module_.to(device, dtype, non_blocking);
  }

 private:
  /// Once, if two layers share it, as Python's parameters() has it.
  static void add(NamedTensors& to, const std::string& name, const torch::Tensor& tensor) {
    const auto same = [&](const auto& named) {
      return named.second.is_same(tensor) ||
             (tensor.numel() > 0 && named.second.is_alias_of(tensor));
    };
    if (std::none_of(to.begin(), to.end(), same)) to.emplace_back(name, tensor);
  }

  torch::jit::Module module_;
  bool own_loss_;
  struct Place {
    std::string name;
    torch::jit::Module owner;
    std::string attribute;
  };
  NamedTensors trained_;
  NamedTensors constants_;     // parameters that are not trained
  std::vector<Place> places_;  // of buffers
};

/// Two samples.
torch::Tensor zeros_for(const Model& model, const SampleShape& shape) {
  std::vector<std::int64_t> sizes{2};
  sizes.insert(sizes.end(), shape.input.begin(), shape.input.end());
  return torch::zeros(sizes, shape.tokens ? torch::kInt64 : model.input_type());
}

/// Throws UsageError where the network gives something else; `when` ends the message.
torch::Tensor loss_of_zeros(Model& model, const SampleShape& shape, const char* when) {
  const torch::Tensor logits = model.forward(zeros_for(model, shape));
  const std::int64_t targets = 2 * shape.targets();
  if (logits.numel() != targets * shape.classes)
    throw UsageError(fmt::format("gives {} values for {} targets of {} classes each{}",
                                 logits.numel(), targets, shape.classes, when));
  const torch::Tensor loss =
      model.loss(logits.reshape({targets, -1}), torch::zeros({targets}, torch::kInt64));
  if (loss.numel() != 1)
    throw UsageError(fmt::format("has a loss that is not a single number{}", when));
  return loss;
}

/// What does not fit shows here and not in the first step.
void try_out(Model& model, const SampleShape& shape) {
  const torch::NoGradGuard no_grad;
  model.eval();
  loss_of_zeros(model, shape, "");
}

/// In training other parts of the network run, and they have gradients. Leaves no trace.
void try_training(Model& model, const SampleShape& shape) {
  for (const auto& [name, tensor] : model.trained())
    if (tensor.scalar_type() != torch::kFloat && tensor.scalar_type() != torch::kDouble)
      throw UsageError(fmt::format("has {} of type {}: export it with float or double parameters",
                                   name, c10::toString(tensor.scalar_type())));
  std::vector<torch::Tensor> before;
  for (const auto& [name, tensor] : model.others()) before.push_back(tensor.clone());
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const torch::Tensor draws = generator.get_state();
  model.train();
  if (!loss_of_zeros(model, shape, " in training").requires_grad())
    throw UsageError("has a loss from which no gradient leads to its parameters");
  generator.set_state(draws);
  const torch::NoGradGuard no_grad;
  const NamedTensors after = model.others();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto& [name, tensor] = after[i];
    if (tensor.sizes() != before[i].sizes() || tensor.scalar_type() != before[i].scalar_type())
      throw UsageError("changes the shape or type of its buffer " + name + " in training");
    tensor.copy_(before[i]);
  }
}

}  // namespace

std::shared_ptr<Model> make_script_model(const Options& options, const SampleShape& shape) {
  const std::string where = "--model " + options.model + ": ";
  try {
    auto model = std::make_shared<ScriptModel>(torch::jit::load(options.model));
    if (model->trained().empty()) throw UsageError("has no parameter that requires a gradient");
    try_out(*model, shape);
    try_training(*model, shape);
    return model;
  } catch (const UsageError& e) {
    throw UsageError(where + e.what());
  } catch (const c10::Error& e) {
    const std::string text = first_line_of(e);
    // What torch.save() writes lacks it.
    const bool saved = text.find("constants.pkl") != std::string::npos;
    throw UsageError(where +
                     (saved ? "is no TorchScript file; export the network, not its state_dict, by "
                              "torch.jit.script(net).save(FILE)"
                            : text));
  } catch (const std::exception& e) {  // of the module's own code
    throw UsageError(where + e.what());
  }
}

}  // namespace bellows::trainer
