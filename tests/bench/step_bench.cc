// SPDX-License-Identifier: Apache-2.0
// step_bench BACKEND MODEL BATCH STEPS STORE: times training steps, as a JSON list of seconds on
// rank 0. BACKEND is bellows (our backend) or gloo (c10d's, through the file STORE); all else is
// the same: model, data, reducer, optimizer. BATCH is that of one rank. With noise, or noise-adam,
// it is our backend, and each second step measures gradient noise: a list of pairs, without and
// with. With timeline likewise, and each second step is recorded in the file STORE.json.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "mpi_elastic/timeline.h"
#include "mpi_elastic/world.h"
#include "tests/unit/trainer_fake_dataset.h"
#include "trainer/state/training_state.h"
#include "trainer/step/batch.h"
#include "trainer/step/gradients.h"
#include "trainer/step/step_clock.h"
#include "trainer/team/mpi_backend.h"

namespace bellows::trainer {
namespace {

c10::intrusive_ptr<c10d::Backend> make_backend(const std::string& name, const World& world,
                                               const std::string& store) {
  if (name != "gloo") return c10::make_intrusive<MpiBackend>(world.communicator());
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::FileStore>(store, world.size()), world.rank(), world.size(),
      options);
}

int run(char** argv) {
  const std::string model = argv[2];
  const int batch = std::stoi(argv[3]);
  const int steps = std::stoi(argv[4]);
  let_waiting_threads_yield();
  const bool timeline = std::string(argv[1]) == "timeline";
  if (timeline) Timeline::open(std::string(argv[5]) + ".json");
  World world = World::open();
  Timeline::enter(world, 1);
  at::set_num_threads(1);
  Options options;
  options.model = model;
  options.dropout = 0;
  const bool noise = std::string(argv[1]).starts_with("noise");
  options.measure_noise = noise;
  if (std::string(argv[1]) == "noise-adam") options.optimizer = "adam";
  const FakeDataset data(model == "cnn" ? SampleShape{{1, 28, 28}, false, 10}
                                        : SampleShape{{3, 32, 32}, false, 10});
  TrainingState state(options, data, torch::kCPU);
  auto backend = make_backend(argv[1], world, argv[5]);
  GradientReducer reducer(state.parameters, backend,
                          static_cast<std::int64_t>(options.bucket_mb * (1 << 20)));
  std::vector<std::uint64_t> ids(static_cast<std::size_t>(batch));
  std::iota(ids.begin(), ids.end(), static_cast<std::uint64_t>(world.rank() * batch));
  const Batch samples = read_batch(data, Split::kTrain, ids, torch::kCPU);

  constexpr int kWarmup = 5;
  std::vector<double> seconds;
  StepClock clock;
  for (int step = 0; step < kWarmup + steps; ++step) {
    const bool measure = noise && step % 2 == 0;
    if (timeline) Timeline::pause(step % 2 != 0);
    const auto start = std::chrono::steady_clock::now();
    clock.begin();
    for (const auto& [name, parameter] : state.parameters) parameter.mutable_grad().reset();
    const torch::Tensor loss =
        run_forward(*state.model, samples).loss / static_cast<double>(batch * world.size());
    clock.lap(StepClock::kForward);
    c10::intrusive_ptr<c10d::Work> sum;
    if (state.norms) {
      state.norms->reset();
      state.norms->next_pass(measure ? world.size() : 0);
    }
    reducer.prepare([&] {
      if (!measure) return;
      std::vector<at::Tensor> norms{torch::tensor(state.norms->sums(), torch::kFloat64)};
      sum = backend->allreduce(norms);
    });
    loss.backward();
    clock.lap(StepClock::kBackward, reducer.all_given());
    clock.lap(StepClock::kCommunication);
    if (measure) {
      sum->wait();
      std::vector<torch::Tensor> gradients;
      for (const auto& [name, parameter] : state.parameters) gradients.push_back(parameter.grad());
      inner_products(gradients, gradients, *state.optimizer);
    }
    state.optimizer->step(0.01);
    clock.lap(StepClock::kUpdate);
    if (Timeline::on()) Timeline::add(fmt::format("step {}", step), start, StepClock::Clock::now());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (step >= kWarmup) seconds.push_back(took.count());
  }
  backend->barrier()->wait();
  const bool pairs_wanted = noise || timeline;
  if (world.rank() == 0 && !pairs_wanted) fmt::print("[{}]\n", fmt::join(seconds, ", "));
  if (world.rank() == 0 && pairs_wanted) {
    std::vector<std::string> pairs;
    for (std::size_t i = 0; i + 1 < seconds.size(); i += 2)
      pairs.push_back(fmt::format("[{}, {}]", seconds[i], seconds[i + 1]));
    fmt::print("[{}]\n", fmt::join(pairs, ", "));
  }
  return 0;
}

}  // namespace
}  // namespace bellows::trainer

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(
        stderr,
        "usage: step_bench bellows|gloo|noise|noise-adam|timeline MODEL BATCH STEPS STORE\n");
    return 2;
  }
  return bellows::trainer::run(argv);
}
