// SPDX-License-Identifier: Apache-2.0
// Batch normalisation on several ranks against one that has all samples; started by a launcher.
// Ends with 0 and "all good" when every rank finds what it should.
#include <fmt/format.h>

#include "tests/programs/rank_checks.h"
#include "tests/unit/trainer_fake_dataset.h"
#include "trainer/network/batch_norm.h"
#include "trainer/step/evaluation.h"
#include "trainer/step/step.h"

namespace bellows::trainer {
namespace {

void expect_close(const torch::Tensor& got, const torch::Tensor& wanted, double bound,
                  const std::string& what) {
  const double off = (got - wanted).abs().max().item<double>();
  const double scale = std::max(1.0, wanted.abs().max().item<double>());
  expect(off <= bound * scale, fmt::format("{}: off by {} of {}", what, off, scale));
}

// ---- the layer ----------------------------------------------------------------------------------

struct Layer {
  torch::Tensor output, of_input, of_weight, of_bias, mean, variance;
};

/// Forward and backward passes of `norm`, of a loss in which no two values count alike.
template <typename Norm>
Layer look_at(Norm& norm, const torch::Tensor& samples, const torch::Tensor& weights) {
  torch::Tensor x = samples.clone().requires_grad_();
  const torch::Tensor y = norm->forward(x);
  (y.square() * weights).sum().backward();
  return {y.detach(),
          x.grad(),
          norm->weight.grad(),
          norm->bias.grad(),
          norm->running_mean.clone(),
          norm->running_var.clone()};
}

/// `sizes` are the samples of each rank; libtorch's own layer has them all.
void check_layer(const World& world, const c10::intrusive_ptr<c10d::Backend>& team,
                 const std::vector<std::int64_t>& sizes, at::ScalarType type, bool channels_last,
                 const std::string& name) {
  constexpr std::int64_t kChannels = 5;
  std::int64_t whole = 0;
  std::int64_t first = 0;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    if (static_cast<int>(r) < world.rank()) first += sizes[r];
    whole += sizes[r];
  }
  torch::manual_seed(3);
  torch::Tensor x = torch::randn({whole, kChannels, 3, 2}, torch::kFloat64) * 2 + 7;
  const torch::Tensor weights = torch::rand({whole, kChannels, 3, 2}, torch::kFloat64).to(type);
  x = x.to(type);
  if (channels_last) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  const auto draw = [&](auto& norm) {
    const torch::NoGradGuard no_grad;
    norm->to(type);
    norm->weight.copy_(torch::linspace(0.5, 2, kChannels));
    norm->bias.copy_(torch::linspace(-1, 1, kChannels));
  };
  torch::nn::BatchNorm2d theirs(kChannels);
  draw(theirs);
  const Layer wanted = look_at(theirs, x, weights);

  const auto scope = std::make_shared<BatchScope>();
  scope->team = team;
  BatchNorm ours(kChannels, scope);
  draw(ours);
  const std::int64_t own = sizes[static_cast<std::size_t>(world.rank())];
  scope->counts = own > 0;
  // A sample that stands in is unlike all others, so that it would be seen.
  const torch::Tensor samples = own > 0 ? x.slice(0, first, first + own) : x.slice(0, 0, 1) * 100;
  Layer got = look_at(
      ours, samples,
      own > 0 ? weights.slice(0, first, first + own) : torch::zeros_like(weights.slice(0, 0, 1)));
  for (torch::Tensor* sum : {&got.of_weight, &got.of_bias}) {
    std::vector<at::Tensor> tensors{*sum};
    team->allreduce(tensors)->wait();
  }
  const double bound = type == at::kDouble ? 1e-10 : 1e-6;
  // Gradients are sums and differences of larger numbers, rounded in both layers.
  if (own > 0) {
    expect_close(got.output, wanted.output.slice(0, first, first + own), bound, name + ": output");
    expect_close(got.of_input, wanted.of_input.slice(0, first, first + own), 4 * bound,
                 name + ": gradient of the input");
  } else {
    expect(got.of_input.abs().max().item<double>() == 0, name + ": no gradient of a stand-in");
  }
  expect_close(got.of_weight, wanted.of_weight, 4 * bound, name + ": gradient of the weight");
  expect_close(got.of_bias, wanted.of_bias, 4 * bound, name + ": gradient of the bias");
  expect_close(got.mean, wanted.mean, bound, name + ": running mean");
  expect_close(got.variance, wanted.variance, bound, name + ": running variance");
}

void check_layers(const World& world) {
  auto team = c10::make_intrusive<MpiBackend>(world.communicator());
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::int64_t> uneven;
  for (std::size_t r = 0; r < ranks; ++r) uneven.push_back(static_cast<std::int64_t>(2 * r + 1));
  std::vector<std::int64_t> idle(ranks, 0);
  idle.back() = 4;
  for (const bool channels_last : {false, true})
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const std::string kind =
          fmt::format("{}{}", c10::toString(type), channels_last ? ", channels last" : "");
      check_layer(world, team, std::vector<std::int64_t>(ranks, 4), type, channels_last,
                  "even, " + kind);
      check_layer(world, team, uneven, type, channels_last, "uneven, " + kind);
      check_layer(world, team, idle, type, channels_last, "one rank with all, " + kind);
    }
}

// ---- steps --------------------------------------------------------------------------------------

Options options(const std::string& batch_norm, std::int64_t batch, std::int64_t micro_batch) {
  Options o;
  o.model = "resnet18";
  o.norm = "batch";
  o.batch_norm = batch_norm;
  o.width = 4;
  o.precision = "double";
  o.lr = 0.01;
  o.batch = batch;
  o.micro_batch = micro_batch;
  return o;
}

/// What the ranks' passes of a step are, put together pass by pass; one rank does it alone.
void step_alone(TrainingState& state, const Options& o, const Dataset& data, int ranks) {
  const Range batch = state.sampler.next(static_cast<std::uint64_t>(o.batch));
  const std::int64_t micro = o.micro_batch > 0 ? o.micro_batch : (o.batch + ranks - 1) / ranks;
  Cut cut{micro};
  for (int r = 0; r < ranks; ++r)
    cut.passes = std::max(
        cut.passes,
        static_cast<std::int64_t>(cut_sizes(share(batch, r, ranks).size(), {micro}).size()));
  std::vector<std::vector<std::uint64_t>> passes(static_cast<std::size_t>(cut.passes));
  for (int r = 0; r < ranks; ++r) {
    const auto own = state.sampler.samples(share(batch, r, ranks));
    auto next = own.begin();
    const auto sizes = cut_sizes(own.size(), cut);
    for (std::size_t pass = 0; pass < sizes.size(); ++pass)
      for (std::size_t i = 0; i < sizes[pass]; ++i) passes[pass].push_back(*next++);
  }
  StepClock clock;
  state.begin_step();
  reset_gradients(state);
  for (const auto& ids : passes)
    run_passes({o, data, torch::kCPU, state, clock}, ids, {static_cast<std::int64_t>(ids.size())},
               1 / static_cast<double>(batch.size()), [](const Sums&) {});
  state.optimizer->step(o.lr);
  state.sampler.advance(batch);
  state.update_buffers();
}

void compare_states(const TrainingState& got, const TrainingState& wanted, double bound,
                    const std::string& name) {
  for (std::size_t i = 0; i < got.parameters.size(); ++i)
    expect_close(got.parameters[i].second.detach(), wanted.parameters[i].second.detach(), bound,
                 name + ": " + got.parameters[i].first);
  for (std::size_t i = 0; i < got.buffers.size(); ++i)
    expect_close(got.buffers[i].second.to(torch::kFloat64),
                 wanted.buffers[i].second.to(torch::kFloat64), bound,
                 name + ": " + got.buffers[i].first);
}

void check_sync_steps(ElasticWorld& elastic, std::int64_t batch, std::int64_t micro_batch) {
  const Options o = options("sync", batch, micro_batch);
  const FakeDataset data({{3, 16, 16}, false, 4});
  Team team(elastic.world(), torch::kCPU);
  TrainingState ours(o, data, torch::kCPU);
  TrainingState alone(o, data, torch::kCPU);
  Course course;
  SampleRecord record("");
  StepClock clock;
  {
    Stepper stepper({o, data, torch::kCPU, ours, clock}, team, elastic, course, record, {o.batch},
                    1);
    for (int step = 0; step < 4; ++step) stepper.step(kGoOn, {}, false);
  }
  for (int step = 0; step < 4; ++step) step_alone(alone, o, data, team.size());
  const std::string name = fmt::format("sync, batch {} in passes of {}", batch, micro_batch);
  compare_states(ours, alone, 1e-10, name);
  expect(team.agree(ours.common_hash()), name + ": the same on all ranks");
  const Sums test = evaluate(ours, data, torch::kCPU, team);
  expect(test.targets == 40 && std::isfinite(test.loss), name + ": is evaluated");
}

// The running statistics are the mean of what each rank's passes make of them, by samples.
void check_local_steps(ElasticWorld& elastic, std::int64_t batch) {
  const Options o = options("local", batch, 0);
  const FakeDataset data({{3, 16, 16}, false, 4});
  Team team(elastic.world(), torch::kCPU);
  TrainingState state(o, data, torch::kCPU);
  Course course;
  SampleRecord record("");
  StepClock clock;
  const PassContext context{o, data, torch::kCPU, state, clock};
  const Range whole = state.sampler.next(static_cast<std::uint64_t>(batch));
  std::vector<torch::Tensor> wanted;
  for (const auto& [name, tensor] : state.buffers)
    wanted.push_back(torch::zeros_like(tensor, torch::kFloat64));
  for (int r = 0; r < team.size(); ++r) {
    const Range own = share(whole, r, team.size());
    if (own.size() == 0) continue;
    state.begin_step();
    run_passes(context, state.sampler.samples(own), {batch}, 1, [](const Sums&) {});
    for (std::size_t i = 0; i < wanted.size(); ++i)
      wanted[i] += state.model_buffers()[i].to(torch::kFloat64) * static_cast<double>(own.size()) /
                   static_cast<double>(batch);
  }
  Stepper stepper(context, team, elastic, course, record, {o.batch}, 1);
  stepper.step(kGoOn, {}, false);
  const std::string name = fmt::format("local, batch {}", batch);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [key, buffer] = state.buffers[i];
    const torch::Tensor mean = buffer.is_floating_point() ? wanted[i] : wanted[i].round();
    expect_close(buffer.to(torch::kFloat64), mean, 1e-12, name + ": " + key);
  }
  stepper.step(kGoOn, {}, false);
  expect(team.agree(state.common_hash()), name + ": the same on all ranks");
}

// A share of one sample on a map of one pixel has no variance: the training goes on.
void check_single_values(ElasticWorld& elastic, const std::string& batch_norm) {
  const Options o = options(batch_norm, elastic.world().size(), 0);
  const FakeDataset data({{3, 8, 8}, false, 4});
  Team team(elastic.world(), torch::kCPU);
  TrainingState state(o, data, torch::kCPU);
  Course course;
  SampleRecord record("");
  StepClock clock;
  Stepper stepper({o, data, torch::kCPU, state, clock}, team, elastic, course, record, {o.batch},
                  1);
  StepResult result;
  for (int step = 0; step < 3; ++step) result = stepper.step(kGoOn, {}, false);
  bool finite = std::isfinite(result.sums.loss);
  for (const auto& [name, tensor] : state.buffers)
    finite = finite && tensor.isfinite().all().item<bool>();
  expect(finite, batch_norm + ": one value per channel");
}

void check_all(ElasticWorld& elastic) {
  const World& world = elastic.world();
  check_layers(world);
  check_sync_steps(elastic, 12, 0);  // 40 samples: the last batch is of 4
  check_sync_steps(elastic, 7, 2);   // not all ranks have as many passes
  check_sync_steps(elastic, 2, 0);   // not all ranks have samples
  check_local_steps(elastic, 14);
  check_local_steps(elastic, 2);
  for (const char* batch_norm : {"local", "sync"}) check_single_values(elastic, batch_norm);
}

}  // namespace
}  // namespace bellows::trainer

int main() { return bellows::trainer::check_on_ranks(bellows::trainer::check_all); }
