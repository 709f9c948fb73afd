// SPDX-License-Identifier: Apache-2.0
// Norms of gradients as optimizers see them, pass by pass, and what a jump of the learning rate
// does to the momentum.
#include <gtest/gtest.h>

#include "tests/unit/trainer_fake_dataset.h"
#include "trainer/adaptation/gradient_norm.h"
#include "trainer/state/training_state.h"
#include "trainer/step/passes.h"

namespace bellows::trainer {
namespace {

[[maybe_unused]] const bool kOneThread = (at::set_num_threads(1), true);

Options options_for(const std::string& optimizer) {
  Options o;
  o.model = "mlp";
  o.width = 8;
  o.dropout = 0;
  o.optimizer = optimizer;
  o.measure_noise = true;
  return o;
}

double exact(const torch::Tensor& a, const torch::Tensor& b, const Preconditioner& by) {
  torch::Tensor scale = torch::ones_like(a, torch::kFloat64);
  if (by.divisor.defined()) scale = by.divisor.to(torch::kFloat64);
  return (a.to(torch::kFloat64) / scale * (b.to(torch::kFloat64) / scale)).sum().item<double>();
}

TEST(InnerProductTest, IsThatOfDoublePrecision) {
  torch::manual_seed(3);
  for (const std::int64_t size : {1, 3, 16, 17, 8191, 8192, 8193, 100001})
    for (const bool adam : {false, true}) {
      const torch::Tensor a = torch::randn({size});
      const torch::Tensor b = torch::randn({size}) + 1;
      Preconditioner by;
      if (adam) by = {torch::rand({size}) / 0.3 + 1e-2};
      for (const auto& [x, y] : {std::pair{a, a}, {a, b}})
        EXPECT_NEAR(inner_product(x, y, by), exact(x, y, by),
                    1e-5 * std::sqrt(exact(x, x, by) * exact(y, y, by)))
            << size;
    }
  const torch::Tensor across = torch::randn({40, 30}).t();
  EXPECT_NEAR(inner_product(across, across, {}), exact(across, across, {}), 1e-2);
  const torch::Tensor twice = torch::randn({77}, torch::kFloat64);
  EXPECT_NEAR(inner_product(twice, twice, {}), exact(twice, twice, {}), 1e-12);
}

TEST(PreconditionerTest, IsWhatAdamDividesBy) {
  torch::Tensor p = torch::zeros({1}, torch::kFloat64).requires_grad_();
  const auto adam = make_optimizer(options_for("adam"), {{"p", p}});
  for (int step = 0; step < 7; ++step) {
    EXPECT_EQ(adam->gradients_compare(), step >= 5);
    p.mutable_grad() = torch::full({1}, 3.0, torch::kFloat64);
    adam->step(0.01);
  }
  // Of equal gradients the corrected second moment is their square.
  EXPECT_NEAR(inner_product(p.grad(), p.grad(), adam->preconditioner(0)), 1, 1e-6);
  // After each update, and where the state came from elsewhere, it is that of the new moments.
  p.mutable_grad() = torch::full({1}, 30.0, torch::kFloat64);
  for (int step = 0; step < 2; ++step) {
    adam->step(0.01);
    const double second = adam->state().back().second.item<double>();
    const double t = static_cast<double>(adam->updates());
    EXPECT_NEAR(adam->preconditioner(0).divisor.item<double>(),
                std::sqrt(second / (1 - std::pow(0.999, t))) + 1e-8, 1e-9);
  }
  adam->state().back().second.fill_(0.25);
  adam->set_updates(100);
  EXPECT_NEAR(adam->preconditioner(0).divisor.item<double>(),
              0.5 / std::sqrt(1 - std::pow(0.999, 100)) + 1e-8, 1e-9);
  const auto sgd = make_optimizer(options_for("sgd"), {{"p", p}});
  EXPECT_TRUE(sgd->gradients_compare());
  EXPECT_NEAR(inner_product(p.grad(), p.grad(), sgd->preconditioner(0)), 900, 1e-9);
}

// The gradients of the passes are measured beside those that were there before.
TEST(PassNormsTest, AreThoseOfEachPassTimesItsShareOfTheBatch) {
  const Options o = options_for("sgd");
  const FakeDataset data({{9}, false, 3});
  TrainingState state(o, data, torch::kCPU);
  StepClock clock;
  const std::vector<std::uint64_t> ids{4, 1, 7, 2, 9};
  const double batch = 11;  // others have the rest
  const auto gradient_of = [&](std::span<const std::uint64_t> some) {
    reset_gradients(state);
    run_passes({o, data, torch::kCPU, state, clock}, some, {100},
               1.0 / static_cast<double>(some.size()), [](const Sums&) {});
    double square = 0;
    for (const auto& [name, p] : state.parameters) square += exact(p.grad(), p.grad(), {});
    return square;
  };
  const std::span<const std::uint64_t> all(ids);
  const double expected = 2 / batch * gradient_of(all.subspan(0, 2)) +
                          2 / batch * gradient_of(all.subspan(2, 2)) +
                          1 / batch * gradient_of(all.subspan(4, 1));
  reset_gradients(state);
  run_passes({o, data, torch::kCPU, state, clock}, all, {2}, 1 / batch, [](const Sums&) {});
  EXPECT_NEAR(state.norms->sums().front(), expected, 1e-5 * expected);
  // That of a rank without samples of its own counts nothing.
  run_passes({o, data, torch::kCPU, state, clock}, all.subspan(0, 1), {100}, 0, [](const Sums&) {});
  EXPECT_EQ(state.norms->sums().front(), 0);
}

// Goyal et al. 2017, equations 9 and 10.
TEST(MomentumTest, AJumpOfTheRateIsCorrectedFor) {
  Options o = options_for("sgd");
  o.momentum = 0.9;
  torch::Tensor p = torch::ones({1}, torch::kFloat64).requires_grad_();
  const auto optimizer = make_optimizer(o, {{"p", p}});
  double theirs = 1;
  double velocity = 0;
  double last = 0.01;
  for (int step = 0; step < 20; ++step) {
    const double rate = step < 8 ? 0.01 : 0.04;
    p.mutable_grad() = p.detach().cos();
    velocity = 0.9 * (rate / last) * velocity + rate * std::cos(theirs);
    theirs -= velocity;
    last = rate;
    optimizer->step(rate);
    EXPECT_NEAR(p.item<double>(), theirs, 1e-12);
  }
}

}  // namespace
}  // namespace bellows::trainer
