// SPDX-License-Identifier: Apache-2.0
// Groups of parameters, against PyTorch step by step; averages of the parameters, by themselves and
// in the state of a training.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "checkpoint/file.h"
#include "tests/unit/trainer_fake_dataset.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/errors.h"
#include "trainer/optimizer/parameter_groups.h"
#include "trainer/state/flat_state.h"
#include "trainer/state/snapshot.h"
#include "trainer/state/training_state.h"

namespace bellows::trainer {
namespace {

[[maybe_unused]] const bool kOneThread = (at::set_num_threads(1), true);

/// The numbers that a Python program prints; none without PyTorch.
std::vector<double> printed(const std::string& program) {
  const std::string command = "python3 -c '" + program + "' 2>/dev/null";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::vector<double> numbers;
  double number = 0;
  while (pipe && std::fscanf(pipe.get(), "%lf", &number) == 1) numbers.push_back(number);
  return numbers;
}

// ---- groups -------------------------------------------------------------------------------------

using Strings = std::vector<std::string>;

/// Two layers and a normalisation.
NamedTensors layers(at::ScalarType type = torch::kFloat64) {
  NamedTensors all;
  const auto add = [&](const char* name, std::vector<std::int64_t> sizes) {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    // Exact in both precisions, and in Python.
    const torch::Tensor values = torch::arange(count, torch::kFloat64) / 8 - 0.5;
    all.emplace_back(name, values.view(sizes).to(type).clone().requires_grad_());
  };
  add("body.weight", {2, 3});
  add("body.bias", {2});
  add("body.norm.weight", {2});
  add("body.norm.bias", {2});
  add("head.weight", {1, 2});
  return all;
}

Strings names_of(const ParameterGroup& group, const NamedTensors& parameters) {
  Strings names;
  for (const std::size_t i : group.members) names.push_back(parameters[i].first);
  return names;
}

TEST(ParameterGroupsTest, AllAreAlikeUnlessItIsSaidOtherwise) {
  const auto groups = parameter_groups({}, layers());
  ASSERT_EQ(groups.size(), 1);
  EXPECT_TRUE(groups[0].decays);
  EXPECT_EQ(groups[0].factor, 1);
  EXPECT_EQ(groups[0].members.size(), 5);
}

TEST(ParameterGroupsTest, BiasesAndNormalisationsAreSparedFromDecay) {
  Options o;
  o.no_decay = {"bias"};
  const NamedTensors p = layers();
  auto groups = parameter_groups(o, p);
  ASSERT_EQ(groups.size(), 2);
  EXPECT_EQ(names_of(groups[1], p), (Strings{"body.bias", "body.norm.bias"}));
  EXPECT_FALSE(groups[1].decays);
  o.no_decay = {"norm"};
  groups = parameter_groups(o, p);
  ASSERT_EQ(groups.size(), 2);
  EXPECT_EQ(names_of(groups[1], p), (Strings{"body.norm.weight", "body.norm.bias"}));
  o.no_decay = {"bias", "norm"};
  groups = parameter_groups(o, p);
  EXPECT_EQ(names_of(groups[0], p), (Strings{"body.weight", "head.weight"}));
}

TEST(ParameterGroupsTest, TheFirstPatternThatMatchesSetsTheFactor) {
  Options o;
  o.lr_factors = {{"head.*", 3}, {"*.weight", 0.5}};
  const NamedTensors p = layers();
  const auto groups = parameter_groups(o, p);
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(groups[0].factor, 0.5);
  EXPECT_EQ(names_of(groups[0], p), (Strings{"body.weight", "body.norm.weight"}));
  EXPECT_EQ(groups[1].factor, 1);
  EXPECT_EQ(names_of(groups[2], p), (Strings{"head.weight"}));
  EXPECT_EQ(groups[2].factor, 3);
}

TEST(ParameterGroupsTest, APatternWithoutParametersNamesThoseThereAre) {
  Options o;
  o.lr_factors = {{"tail.*", 2}};
  expect_error<UsageError>([&] { parameter_groups(o, layers()); },
                           {"--lr-factors tail.*=2: no parameter", "body.weight", "head.weight"});
}

/// The same 20 steps in Python, with the same groups; `made` makes the optimizer of `groups`.
std::vector<double> torchs_path(const std::string& made, const std::string& rate,
                                const std::string& type) {
  return printed(
      "import torch\n"
      "def p(*sizes):\n"
      "  n = 1\n"
      "  for s in sizes: n *= s\n"
      "  return (torch.arange(n, dtype=torch.float64) / 8 - 0.5).view(*sizes).to(torch." +
      type +
      ").clone().requires_grad_()\n"
      "w, b, nw, nb, h = p(2, 3), p(2), p(2), p(2), p(1, 2)\n"
      "groups = [dict(params=[w]), dict(params=[b, nw, nb], weight_decay=0),\n"
      "          dict(params=[h], lr=0.1 * " +
      rate +
      ")]\n"
      "optimizer = " +
      made +
      "\n"
      "for step in range(20):\n"
      "  for x in (w, b, nw, nb, h): x.grad = (x.detach() - step * 0.125).sin()\n"
      "  optimizer.step()\n"
      "for x in (w, b, nw, nb, h):\n"
      "  for v in x.detach().view(-1).tolist(): print(repr(v))\n");
}

void expect_torchs_path(Options o, const std::string& name, const std::string& more) {
  o.weight_decay = 0.05;
  o.no_decay = {"bias", "norm"};
  o.lr_factors = {{"head.*", 0.1}};
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    const NamedTensors parameters = layers(type);
    const auto optimizer = make_optimizer(o, parameters);
    for (int step = 0; step < 20; ++step) {
      for (const auto& [key, p] : parameters) p.mutable_grad() = (p.detach() - step * 0.125).sin();
      optimizer->step(o.lr);
    }
    const std::string rate = fmt::format("{}", o.lr);
    const auto theirs =
        torchs_path(fmt::format("torch.optim.{}(groups, lr={}, {})", name, rate, more), rate,
                    type == torch::kFloat64 ? "float64" : "float32");
    if (theirs.empty()) GTEST_SKIP() << "no PyTorch for Python";
    std::vector<double> ours;
    for (const auto& [key, p] : parameters) {
      const torch::Tensor values = p.detach().to(torch::kFloat64).reshape({-1});
      for (std::int64_t i = 0; i < values.numel(); ++i) ours.push_back(values[i].item<double>());
    }
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i], theirs[i], type == torch::kFloat64 ? 1e-10 : 1e-6) << name << ": " << i;
  }
}

TEST(ParameterGroupsTest, SgdIsPytorchsWithGroups) {
  Options o;
  o.lr = 0.05;
  for (const bool nesterov : {false, true}) {
    o.nesterov = nesterov;
    expect_torchs_path(
        o, "SGD",
        fmt::format("momentum=0.9, weight_decay=0.05, nesterov={}", nesterov ? "True" : "False"));
  }
}

TEST(ParameterGroupsTest, AdamAndAdamwArePytorchsWithGroups) {
  Options o;
  o.lr = 0.02;
  o.optimizer = "adam";
  expect_torchs_path(o, "Adam", "weight_decay=0.05");
  o.optimizer = "adamw";
  expect_torchs_path(o, "AdamW", "weight_decay=0.05");
}

// As AdaScale sets them, by the noise of each group; the last one stands for those that follow.
TEST(ParameterGroupsTest, HaveRatesOfTheirOwn) {
  Options o;
  o.momentum = 0;
  o.lr_factors = {{"head.*", 0.5}, {"*.bias", 2}};
  const NamedTensors p = layers();
  std::vector<torch::Tensor> before;
  for (const auto& [name, tensor] : p) {
    before.push_back(tensor.detach().clone());
    tensor.mutable_grad() = torch::ones_like(tensor.detach());
  }
  const std::vector<double> rates{0.25, 0.125};
  make_optimizer(o, p)->step(rates);
  // The groups are the weights, the biases, and the head.
  const double expected[] = {0.25, 0.125 * 2, 0.25, 0.125 * 2, 0.125 * 0.5};
  for (std::size_t i = 0; i < p.size(); ++i)
    EXPECT_TRUE(torch::equal(p[i].second.detach(), before[i] - expected[i])) << p[i].first;
}

// ---- averages -----------------------------------------------------------------------------------

NamedTensors one_parameter(double value) {
  return {{"p", torch::full({2}, value, torch::kFloat64).requires_grad_()}};
}

void set(const NamedTensors& parameters, double value) {
  const torch::NoGradGuard no_grad;
  parameters.front().second.fill_(value);
}

double value_of(const WeightAverage& average) {
  return average.tensors().front().second[0].item<double>();
}

TEST(WeightAverageTest, IsThatOfItsFormula) {
  const NamedTensors p = one_parameter(5);
  WeightAverage average(p, 0.9);
  double expected = 0;
  for (int update = 1; update <= 30; ++update) {
    const double value = std::sin(update);
    // Batches of other sizes decay as much as so many of the base batch would.
    const double scale = update < 10 ? 1 : update < 20 ? 4 : 0.5;
    const double decay = std::pow(0.9, scale);
    expected = update == 1 ? value : decay * expected + (1 - decay) * value;
    set(p, value);
    average.update(update, scale);
    EXPECT_NEAR(value_of(average), expected, 1e-14);
  }
}

TEST(WeightAverageTest, IsPytorchsAveragedModel) {
  const auto theirs = printed(
      "import torch\n"
      "from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn\n"
      "model = torch.nn.Linear(1, 1, bias=False).double()\n"
      "average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.95))\n"
      "for step in range(1, 41):\n"
      "  with torch.no_grad(): model.weight.fill_(1 / step)\n"
      "  average.update_parameters(model)\n"
      "  print(repr(average.module.weight.item()))\n");
  if (theirs.empty()) GTEST_SKIP() << "no PyTorch for Python";
  ASSERT_EQ(theirs.size(), 40);
  const NamedTensors p = one_parameter(0);
  WeightAverage average(p, 0.95);
  for (int update = 1; update <= 40; ++update) {
    set(p, 1.0 / update);
    average.update(update, 1);
    EXPECT_NEAR(value_of(average), theirs[static_cast<std::size_t>(update - 1)], 1e-12);
  }
}

Options with_averages() {
  Options o;
  o.model = "mlp";
  o.width = 8;
  o.ema = 0.5;
  return o;
}

const SampleShape kVectors{{6}, false, 3};

void train(TrainingState& state, int steps) {
  for (int i = 0; i < steps; ++i) {
    state.begin_step();
    for (const auto& [name, p] : state.parameters) p.mutable_grad() = p.detach().cos();
    state.optimizer->step(0.1);
    state.average.update(state.optimizer->updates(), 1);
    ++state.step;
    state.update_buffers();
  }
}

std::vector<std::byte> bytes_of(TrainingState& state) {
  const FlatState flat(state);
  std::vector<std::byte> bytes(flat.size());
  flat.read(0, bytes);
  return bytes;
}

TEST(AveragesInUseTest, TheModelHasThemAndTheStateStays) {
  const FakeDataset data(kVectors);
  TrainingState state(with_averages(), data, torch::kCPU);
  train(state, 5);
  const auto before = bytes_of(state);
  const torch::Tensor x = torch::ones({2, 6});
  state.model->eval();
  const torch::Tensor plain = state.model->forward(x);
  {
    const AveragesInUse averages(state.parameters, state.average);
    for (std::size_t i = 0; i < state.parameters.size(); ++i)
      EXPECT_TRUE(torch::equal(state.parameters[i].second, state.average.tensors()[i].second));
    EXPECT_FALSE(torch::equal(state.model->forward(x), plain));
    // Another thread may save the state meanwhile.
    EXPECT_EQ(bytes_of(state), before);
  }
  EXPECT_TRUE(torch::equal(state.model->forward(x), plain));
  EXPECT_EQ(bytes_of(state), before);
  state.model->train();
  TrainingState other(with_averages(), data, torch::kCPU);
  train(other, 8);
  train(state, 3);
  EXPECT_EQ(bytes_of(state), bytes_of(other));
}

TEST(AveragesInUseTest, WithoutAveragesTheParametersAre) {
  const FakeDataset data(kVectors);
  Options o = with_averages();
  o.ema = 0;
  TrainingState state(o, data, torch::kCPU);
  const torch::Tensor x = torch::ones({2, 6});
  state.model->eval();
  const torch::Tensor plain = state.model->forward(x);
  const AveragesInUse averages(state.parameters, state.average);
  EXPECT_TRUE(torch::equal(state.model->forward(x), plain));
}

TEST(AveragesTest, TravelWithTheState) {
  const FakeDataset data(kVectors);
  TrainingState state(with_averages(), data, torch::kCPU);
  TrainingState other(with_averages(), data, torch::kCPU);
  train(state, 4);
  FlatState to(other);
  to.write(0, bytes_of(state));
  to.finish();
  EXPECT_EQ(other.common_hash(), state.common_hash());
  state.average.tensors().back().second.view(-1)[0] += 1;
  EXPECT_NE(other.common_hash(), state.common_hash());
  EXPECT_NE(other.parameter_hash(), state.parameter_hash());
}

TEST(AveragesTest, AreInCheckpointsUnderTheNamesOfTheParameters) {
  const FakeDataset data(kVectors);
  const Options o = with_averages();
  TrainingState state(o, data, torch::kCPU);
  train(state, 4);
  const checkpoint::State stored = capture(state, o);
  for (const auto& [name, tensor] : state.parameters)
    EXPECT_NE(stored.find_tensor("ema/" + name), nullptr) << name;
  TrainingState other(o, data, torch::kCPU);
  restore(other, o, stored);
  EXPECT_EQ(bytes_of(other), bytes_of(state));
}

TEST(AveragesTest, BeginWithTheParametersOfACheckpointThatHasNone) {
  const FakeDataset data(kVectors);
  Options without = with_averages();
  without.ema = 0;
  TrainingState state(without, data, torch::kCPU);
  train(state, 4);
  const checkpoint::State stored = capture(state, without);
  Options o = with_averages();
  TrainingState other(o, data, torch::kCPU);
  expect_error<UsageError>([&] { restore(other, o, stored); }, {"--ema was 0 and is 0.5"});
  o.accept_changes = true;
  restore(other, o, stored);
  for (std::size_t i = 0; i < other.parameters.size(); ++i)
    EXPECT_TRUE(torch::equal(other.parameters[i].second, other.average.tensors()[i].second));
}

}  // namespace
}  // namespace bellows::trainer
