// SPDX-License-Identifier: Apache-2.0
// What a program of somebody else brings: its optimizer, and its command line.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/errors.h"
#include "trainer/program/torch_optimizer.h"

namespace bellows::trainer {
namespace {

namespace optim = torch::optim;
using Groups = std::vector<optim::OptimizerParamGroup>;
using Make = std::function<std::unique_ptr<optim::Optimizer>(Groups)>;

struct Case {
  std::string name;
  Make make;
};

template <typename O, typename Options>
Case of(std::string name, Options options) {
  return {std::move(name),
          [options](Groups groups) { return std::make_unique<O>(std::move(groups), options); }};
}

std::vector<Case> cases() {
  return {of<optim::SGD>("sgd", optim::SGDOptions(0.1)),
          of<optim::SGD>("momentum", optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01)),
          of<optim::SGD>("nesterov", optim::SGDOptions(0.1).momentum(0.9).nesterov(true)),
          of<optim::Adam>("adam", optim::AdamOptions(0.01).weight_decay(0.1)),
          of<optim::Adam>("amsgrad", optim::AdamOptions(0.01).amsgrad(true)),
          of<optim::AdamW>("adamw", optim::AdamWOptions(0.01)),
          of<optim::AdamW>("adamw_amsgrad", optim::AdamWOptions(0.01).amsgrad(true)),
          of<optim::RMSprop>("rmsprop", optim::RMSpropOptions(0.01)),
          of<optim::RMSprop>("rmsprop_centered",
                             optim::RMSpropOptions(0.01).momentum(0.9).centered(true)),
          of<optim::Adagrad>(
              "adagrad", optim::AdagradOptions(0.1).lr_decay(0.1).initial_accumulator_value(0.5))};
}

class TorchOptimizerTest : public testing::TestWithParam<Case> {};

/// Two parameters in two groups, the second with a learning rate of its own.
struct Trained {
  explicit Trained(const Case& c) {
    parameters = {{"a", torch::linspace(-1, 1, 6).set_requires_grad(true)},
                  {"b", torch::ones({2, 2}).set_requires_grad(true)}};
    torch_optimizer = c.make({optim::OptimizerParamGroup({parameters[0].second}),
                              optim::OptimizerParamGroup({parameters[1].second})});
    auto& groups = torch_optimizer->param_groups();
    groups[1].options().set_lr(groups[0].options().get_lr() / 4);
  }
  void set_gradients(int step) {
    for (auto& [name, parameter] : parameters)
      parameter.mutable_grad() =
          torch::sin(torch::arange(parameter.numel()) * 1.7 + step).reshape(parameter.sizes());
  }
  NamedTensors parameters;
  std::unique_ptr<optim::Optimizer> torch_optimizer;
};

void expect_equal(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(torch::equal(a[i].second, b[i].second)) << a[i].first;
}

TEST_P(TorchOptimizerTest, StepsAsTheOptimizerAloneDoes) {
  Trained alone(GetParam());
  Trained wrapped(GetParam());
  TorchOptimizer optimizer(wrapped.parameters, *wrapped.torch_optimizer);
  for (int step = 0; step < 8; ++step) {
    alone.set_gradients(step);
    wrapped.set_gradients(step);
    alone.torch_optimizer->step();
    optimizer.step(optimizer.base_rate());
    expect_equal(alone.parameters, wrapped.parameters);
  }
  EXPECT_EQ(optimizer.updates(), 8);
}

TEST_P(TorchOptimizerTest, AnotherGoesOnWithItsStateAndAnotherRate) {
  Trained first(GetParam());
  TorchOptimizer optimizer(first.parameters, *first.torch_optimizer);
  for (int step = 0; step < 4; ++step) {
    first.set_gradients(step);
    optimizer.step(optimizer.base_rate());
  }
  Trained second(GetParam());
  TorchOptimizer other(second.parameters, *second.torch_optimizer);
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < first.parameters.size(); ++i)
      second.parameters[i].second.copy_(first.parameters[i].second);
    ASSERT_EQ(other.state().size(), optimizer.state().size());
    for (std::size_t i = 0; i < other.state().size(); ++i) {
      EXPECT_EQ(other.state()[i].first, optimizer.state()[i].first);
      torch::Tensor to = other.state()[i].second;
      to.copy_(optimizer.state()[i].second);
    }
  }
  other.set_updates(optimizer.updates());
  for (int step = 4; step < 8; ++step) {
    first.set_gradients(step);
    second.set_gradients(step);
    for (auto& group : first.torch_optimizer->param_groups())
      group.options().set_lr(group.options().get_lr() * 3);
    optimizer.step(optimizer.base_rate());
    for (auto& group : first.torch_optimizer->param_groups())
      group.options().set_lr(group.options().get_lr() / 3);
    other.step(3 * other.base_rate());
    for (std::size_t i = 0; i < first.parameters.size(); ++i)
      EXPECT_TRUE(torch::allclose(first.parameters[i].second, second.parameters[i].second, 1e-6));
  }
  expect_equal(optimizer.state(), other.state());
}

INSTANTIATE_TEST_SUITE_P(All, TorchOptimizerTest, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(TorchOptimizer, DividesByWhatAdamDividesBy) {
  Trained trained(of<optim::Adam>("adam", optim::AdamOptions(0.01).betas({0.9, 0.99}).eps(1e-3)));
  TorchOptimizer optimizer(trained.parameters, *trained.torch_optimizer);
  torch::Tensor square = torch::zeros(6);
  for (int step = 0; step < 5; ++step) {
    EXPECT_FALSE(optimizer.gradients_compare());
    trained.set_gradients(step);
    square = 0.99 * square + 0.01 * trained.parameters[0].second.grad().square();
    optimizer.step(optimizer.base_rate());
  }
  EXPECT_TRUE(optimizer.gradients_compare());
  const torch::Tensor expected = (square / (1 - std::pow(0.99, 5))).sqrt() + 1e-3;
  EXPECT_TRUE(torch::allclose(optimizer.preconditioner(0).divisor, expected, 1e-5));
}

TEST(TorchOptimizer, RefusesWhatItCannotCarryOver) {
  Trained trained(of<optim::SGD>("sgd", optim::SGDOptions(0.1).momentum(0.9).dampening(0.5)));
  EXPECT_THROW(TorchOptimizer(trained.parameters, *trained.torch_optimizer), UsageError);
  Trained other(of<optim::SGD>("sgd", optim::SGDOptions(0.1)));
  EXPECT_THROW(TorchOptimizer({other.parameters[0]}, *other.torch_optimizer), UsageError);
  optim::LBFGS lbfgs(std::vector<torch::Tensor>{other.parameters[0].second});
  EXPECT_THROW(kind_of(lbfgs), UsageError);
}

/// The arguments that are left; `options` becomes what was taken.
std::vector<std::string> left_of(std::vector<std::string> arguments, Options& options) {
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  auto argc = static_cast<int>(arguments.size());
  options.optimizer.clear();
  options = take_program_options(argc, argv.data(), options);
  EXPECT_EQ(argv[static_cast<std::size_t>(argc)], nullptr);
  return {argv.begin(), argv.begin() + argc};
}

TEST(ProgramOptions, AreTakenOutAndTheOthersStayInOrder) {
  using Words = std::vector<std::string>;
  Options options;
  options.passes = 7;
  options.batch = 9;
  EXPECT_EQ(
      left_of({"p", "data", "--batch", "12", "-v", "--lr=3", "--help", "--batch-rule=per-rank",
               "more", "--verbose", "--epochs", "2", "--", "--batch", "x", "--"},
              options),
      (Words{"p", "data", "-v", "--lr=3", "--help", "more", "--verbose", "--batch", "x", "--"}));
  EXPECT_EQ(options.batch, 12);
  EXPECT_EQ(options.passes, 2);
  EXPECT_EQ(options.batch_rule, "per-rank");
  EXPECT_FALSE(options.help);
}

TEST(ProgramOptions, DefaultsAreTheProgramsAndMistakesAreNamed) {
  Options options;
  options.passes = 7;
  options.batch = 9;
  EXPECT_EQ(left_of({"p"}, options).size(), 1U);
  EXPECT_EQ(options.batch, 9);
  EXPECT_EQ(options.passes, 7);
  for (const char* wrong :
       {"--batch=none", "--batch=0", "--logical-ranks=4", "--checkpoint-every=5"}) {
    Options again;
    EXPECT_THROW(left_of({"p", wrong}, again), UsageError) << wrong;
  }
  options.lr_rule = "adascale";
  options.optimizer = "rmsprop";
  EXPECT_THROW(check_optimizer(options), UsageError);
}

}  // namespace
}  // namespace bellows::trainer
