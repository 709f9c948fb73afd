// SPDX-License-Identifier: Apache-2.0
// Models, dropout, optimizers, buckets and the state as a checkpoint has it.
#include <numeric>

#include "checkpoint/file.h"
#include "tests/unit/trainer_fake_dataset.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/errors.h"
#include "trainer/network/model.h"
#include "trainer/state/snapshot.h"
#include "trainer/state/training_state.h"
#include "trainer/step/batch.h"
#include "trainer/step/gradients.h"

namespace bellows::trainer {
namespace {

// Tests run beside each other: one core each.
[[maybe_unused]] const bool kOneThread = (at::set_num_threads(1), true);

// ---- dropout ------------------------------------------------------------------------------------

torch::Tensor mask_for(std::vector<std::uint64_t> samples, std::uint64_t seed = 1,
                       std::uint64_t pass = 0, int layer = 0, double rate = 0.25) {
  auto draws = std::make_shared<Draws>(Draws{seed, pass, std::move(samples)});
  return DropoutImpl(rate, layer, draws).mask(1000);
}

TEST(DropoutTest, TheMaskBelongsToTheSample) {
  const torch::Tensor together = mask_for({5, 9, 7});
  EXPECT_TRUE(torch::equal(together[0], mask_for({5})[0]));
  EXPECT_TRUE(torch::equal(together[2], mask_for({7, 5})[0]));
  EXPECT_FALSE(torch::equal(together[0], together[1]));
}

TEST(DropoutTest, SeedPassAndLayerMakeOtherMasks) {
  const torch::Tensor mask = mask_for({5});
  EXPECT_TRUE(torch::equal(mask, mask_for({5})));
  EXPECT_FALSE(torch::equal(mask, mask_for({5}, 2)));
  EXPECT_FALSE(torch::equal(mask, mask_for({5}, 1, 1)));
  EXPECT_FALSE(torch::equal(mask, mask_for({5}, 1, 0, 1)));
}

TEST(DropoutTest, DropsTheRateAndKeepsTheMean) {
  std::vector<std::uint64_t> samples(500);
  std::iota(samples.begin(), samples.end(), 0);
  for (const double rate : {0.1, 0.25, 0.5, 0.9}) {
    const torch::Tensor mask = mask_for(samples, 3, 1, 0, rate);
    EXPECT_NEAR(mask.eq(0).to(torch::kFloat64).mean().item<double>(), rate, 0.005);
    EXPECT_NEAR(mask.to(torch::kFloat64).mean().item<double>(), 1, 0.05);
  }
}

TEST(DropoutTest, DoesNothingInEvaluation) {
  auto draws = std::make_shared<Draws>(Draws{1, 0, {1, 2}});
  DropoutImpl dropout(0.5, 0, draws);
  const torch::Tensor x = torch::ones({2, 10});
  EXPECT_FALSE(torch::equal(dropout.forward(x), x));
  dropout.eval();
  EXPECT_TRUE(torch::equal(dropout.forward(x), x));
}

// ---- optimizers: the mathematics of torch.optim -------------------------------------------------

struct Pair {
  torch::Tensor ours;
  torch::Tensor theirs;
};

template <typename Theirs>
void expect_same_path(const Options& options, Theirs theirs_options) {
  torch::manual_seed(4);
  std::vector<Pair> pairs;
  NamedTensors ours;
  std::vector<torch::Tensor> theirs;
  for (const std::int64_t size : {3, 7}) {
    const torch::Tensor start = torch::randn({size, 2}, torch::kFloat64);
    pairs.push_back({start.clone().requires_grad_(), start.clone().requires_grad_()});
    ours.emplace_back("p" + std::to_string(size), pairs.back().ours);
    theirs.push_back(pairs.back().theirs);
  }
  const auto optimizer = make_optimizer(options, ours);
  auto reference = theirs_options(theirs);
  for (int step = 0; step < 20; ++step) {
    for (Pair& p : pairs) {
      p.ours.mutable_grad() = (p.ours.detach() - step * 0.1).sin();
      p.theirs.mutable_grad() = (p.theirs.detach() - step * 0.1).sin();
    }
    optimizer->step(options.lr);
    reference->step();
  }
  for (const Pair& p : pairs) EXPECT_TRUE(torch::allclose(p.ours, p.theirs, 1e-10, 1e-12));
  EXPECT_EQ(optimizer->updates(), 20);
}

TEST(OptimizerTest, SgdIsTorchsSgd) {
  for (const bool nesterov : {false, true}) {
    Options o;
    o.lr = 0.03;
    o.momentum = 0.8;
    o.nesterov = nesterov;
    o.weight_decay = 0.01;
    expect_same_path(o, [&](const auto& p) {
      return std::make_unique<torch::optim::SGD>(
          p, torch::optim::SGDOptions(0.03).momentum(0.8).nesterov(nesterov).weight_decay(0.01));
    });
  }
}

TEST(OptimizerTest, SgdWithoutMomentumHasNoState) {
  Options o;
  o.lr = 0.03;
  o.momentum = 0;
  expect_same_path(o, [](const auto& p) { return std::make_unique<torch::optim::SGD>(p, 0.03); });
  const NamedTensors p{{"p", torch::zeros({2}).requires_grad_()}};
  EXPECT_TRUE(make_optimizer(o, p)->state().empty());
}

TEST(OptimizerTest, AdamIsTorchsAdam) {
  Options o;
  o.optimizer = "adam";
  o.lr = 0.01;
  o.weight_decay = 0.02;
  expect_same_path(o, [](const auto& p) {
    return std::make_unique<torch::optim::Adam>(p,
                                                torch::optim::AdamOptions(0.01).weight_decay(0.02));
  });
}

TEST(OptimizerTest, AdamwIsTorchsAdamw) {
  Options o;
  o.optimizer = "adamw";
  o.lr = 0.01;
  o.weight_decay = 0.02;
  expect_same_path(o, [](const auto& p) {
    return std::make_unique<torch::optim::AdamW>(
        p, torch::optim::AdamWOptions(0.01).weight_decay(0.02));
  });
}

TEST(OptimizerTest, ClippingScalesTheCommonNorm) {
  torch::Tensor a = torch::zeros({3}).requires_grad_();
  torch::Tensor b = torch::zeros({1}).requires_grad_();
  a.mutable_grad() = torch::tensor({2.0F, 0.0F, 0.0F});
  b.mutable_grad() = torch::tensor({1.5F});
  const NamedTensors named{{"a", a}, {"b", b}};
  EXPECT_NEAR(clip_gradients(named, 1), 2.5, 1e-6);
  EXPECT_NEAR(a.grad()[0].item<double>(), 0.8, 1e-6);
  EXPECT_NEAR(b.grad()[0].item<double>(), 0.6, 1e-6);
  EXPECT_NEAR(clip_gradients(named, 10), 1, 1e-6);
  EXPECT_NEAR(b.grad()[0].item<double>(), 0.6, 1e-6);
}

// ---- models -------------------------------------------------------------------------------------

const SampleShape kImage{{1, 12, 12}, false, 5};
const SampleShape kColour{{3, 16, 16}, false, 4};
const SampleShape kVector{{9}, false, 3};
const SampleShape kTokens{{8}, true, 256};

Options options_for(const std::string& model) {
  Options o;
  o.model = model;
  o.lr = 0.05;
  o.length = 8;
  o.width = model == "transformer" ? 16 : 8;
  return o;
}

struct Case {
  const char* model;
  SampleShape shape;
  const char* norm = "group";
};

class ModelTest : public testing::TestWithParam<Case> {};

TEST_P(ModelTest, LearnsItsSamples) {
  Options o = options_for(GetParam().model);
  o.norm = GetParam().norm;
  o.dropout = 0.1;
  const FakeDataset data(GetParam().shape);
  TrainingState state(o, data, torch::kCPU);
  const std::vector<std::uint64_t> ids{0, 1, 2, 3, 4, 5};
  const Batch batch = read_batch(data, Split::kTrain, ids, torch::kCPU);
  double first = 0;
  double last = 0;
  for (int step = 0; step < 30; ++step) {
    for (const auto& [name, p] : state.parameters) p.mutable_grad().reset();
    state.model->draw_for({1, 0, ids});
    const Forward forward = run_forward(*state.model, batch);
    const torch::Tensor loss = forward.loss / batch.targets.numel();
    loss.backward();
    for (const auto& [name, p] : state.parameters) {
      ASSERT_TRUE(p.grad().defined()) << name;
      ASSERT_TRUE(torch::isfinite(p.grad()).all().item<bool>()) << name;
    }
    last = loss.item<double>();
    if (step == 0) first = last;
    state.optimizer->step(0.05);
  }
  EXPECT_LT(last, 0.8 * first);
}

TEST_P(ModelTest, StartsTheSameFromTheSameSeed) {
  Options o = options_for(GetParam().model);
  o.norm = GetParam().norm;
  const FakeDataset data(GetParam().shape);
  const auto hash = TrainingState(o, data, torch::kCPU).parameter_hash();
  EXPECT_EQ(TrainingState(o, data, torch::kCPU).parameter_hash(), hash);
  o.seed = 2;
  EXPECT_NE(TrainingState(o, data, torch::kCPU).parameter_hash(), hash);
}

INSTANTIATE_TEST_SUITE_P(All, ModelTest,
                         testing::Values(Case{"mlp", kVector}, Case{"mlp", kImage},
                                         Case{"cnn", kImage}, Case{"cnn", kColour},
                                         Case{"resnet18", kColour},
                                         Case{"resnet18", kColour, "batch"},
                                         Case{"transformer", kTokens}));

TEST(ModelShapeTest, SaysWhichShapesDoNotSuit) {
  expect_error<UsageError>([] { make_model(options_for("cnn"), kVector); }, {"cnn", "images"});
  expect_error<UsageError>([] { make_model(options_for("resnet18"), kVector); }, {"resnet18"});
  expect_error<UsageError>([] { make_model(options_for("transformer"), kImage); }, {"text:FILE"});
  Options o = options_for("transformer");
  o.heads = 3;
  expect_error<UsageError>([&] { make_model(o, kTokens); }, {"--heads 3"});
}

TEST(ResNet18Test, HasTheSizeOfThePaper) {
  Options o = options_for("resnet18");
  o.width = 0;
  const auto model = make_model(o, {{3, 32, 32}, false, 10});
  std::int64_t size = 0;
  for (const auto& p : model->parameters()) size += p.numel();
  EXPECT_EQ(size, 11173962);
}

// ---- buckets ------------------------------------------------------------------------------------

TEST(BucketTest, GoFromTheLastParameterToTheFirst) {
  NamedTensors parameters;
  for (int i = 0; i < 6; ++i)
    parameters.emplace_back(std::to_string(i), torch::zeros({1 << 18}));  // 1 MiB each
  const auto buckets = plan_buckets(parameters, 2 << 20);
  const std::vector<std::vector<std::size_t>> expected{{5}, {4, 3}, {2, 1}, {0}};
  EXPECT_EQ(buckets, expected);
}

TEST(BucketTest, HoldOneTypeEach) {
  const NamedTensors parameters{{"a", torch::zeros({2})},
                                {"b", torch::zeros({2}, torch::kFloat64)},
                                {"c", torch::zeros({2})}};
  EXPECT_EQ(plan_buckets(parameters, 1 << 20).size(), 3);
}

// ---- checkpoints --------------------------------------------------------------------------------

class SnapshotTest : public TrainerTest {
 protected:
  static void train(TrainingState& state, int steps) {
    for (int i = 0; i < steps; ++i) {
      for (const auto& [name, p] : state.parameters)
        p.mutable_grad() = torch::full_like(p, 0.1 * (i + 1));
      state.optimizer->step(0.05);
      const Range batch = state.sampler.next(7);
      state.sampler.advance(batch);
      state.samples += batch.size();
      ++state.step;
      state.pass_sums.add({0.25 * i, 3, 7});
    }
  }
};

TEST_F(SnapshotTest, ComesBackBitForBit) {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    for (const Case& c : {Case{"cnn", kImage}, Case{"resnet18", kColour, "batch"}}) {
      Options o = options_for(c.model);
      o.norm = c.norm;
      o.optimizer = optimizer;
      const FakeDataset data(c.shape);
      TrainingState state(o, data, torch::kCPU);
      train(state, 9);
      checkpoint::write(path("c.h5"), capture(state, o), state.step);

      TrainingState other(o, data, torch::kCPU);
      restore(other, o, checkpoint::read(path("c.h5")).state);
      EXPECT_EQ(other.parameter_hash(), state.parameter_hash());
      EXPECT_EQ(other.counters(), state.counters());
      EXPECT_EQ(other.sampler.position(), state.sampler.position());
      // What follows is the same as well.
      train(state, 3);
      train(other, 3);
      EXPECT_EQ(other.parameter_hash(), state.parameter_hash());
    }
  }
}

TEST_F(SnapshotTest, RestoresTheGeneratorOfLibtorch) {
  const Options o = options_for("mlp");
  const FakeDataset data(kVector);
  TrainingState state(o, data, torch::kCPU);
  const checkpoint::State saved = capture(state, o);
  const torch::Tensor expected = torch::randn({5});
  torch::randn({100});
  restore(state, o, saved);
  state.begin_step();
  EXPECT_TRUE(torch::equal(torch::randn({5}), expected));
}

TEST_F(SnapshotTest, NamesOptionsThatDiffer) {
  Options o = options_for("cnn");
  const FakeDataset data(kImage);
  TrainingState state(o, data, torch::kCPU);
  const checkpoint::State saved = capture(state, o);
  o.batch = 64;
  o.seed = 77;
  expect_error<UsageError>([&] { restore(state, o, saved); },
                           {"--batch was 128 and is 64", "--seed was 1 and is 77"});
  o.accept_changes = true;
  EXPECT_NO_THROW(restore(state, o, saved));
}

TEST_F(SnapshotTest, LimitsAndOutputMayDiffer) {
  Options o = options_for("cnn");
  const FakeDataset data(kImage);
  TrainingState state(o, data, torch::kCPU);
  const checkpoint::State saved = capture(state, o);
  o.passes = 99;
  o.micro_batch = 3;
  o.log_every = 7;
  EXPECT_NO_THROW(restore(state, o, saved));
}

TEST_F(SnapshotTest, NamesATensorOfAnotherShape) {
  Options o = options_for("cnn");
  const FakeDataset data(kImage);
  TrainingState state(o, data, torch::kCPU);
  const checkpoint::State saved = capture(state, o);
  o.width = 4;
  o.accept_changes = true;
  TrainingState other(o, data, torch::kCPU);
  expect_error<UsageError>([&] { restore(other, o, saved); },
                           {"parameters/conv1.weight", "8x1x3x3", "4x1x3x3"});
}

TEST_F(SnapshotTest, RefusesWhatIsNoTraining) {
  const Options o = options_for("cnn");
  const FakeDataset data(kImage);
  TrainingState state(o, data, torch::kCPU);
  expect_error<UsageError>([&] { restore(state, o, checkpoint::State()); }, {"other options"});
}

TEST(TrainingStateTest, TheHashSeesEveryBit) {
  const Options o = options_for("mlp");
  const FakeDataset data(kVector);
  const TrainingState state(o, data, torch::kCPU);
  const std::uint64_t before = state.parameter_hash();
  const torch::NoGradGuard no_grad;
  torch::Tensor last = state.parameters.back().second.view(-1);
  last[-1] = std::nextafter(last[-1].item<float>(), 10.0F);
  EXPECT_NE(state.parameter_hash(), before);
}

}  // namespace
}  // namespace bellows::trainer
