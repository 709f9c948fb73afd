// SPDX-License-Identifier: Apache-2.0
// shares_bench none|equal|speed STEPS: the seconds of training steps, as a JSON list, of ranks for
// which a sample takes a millisecond (asleep: so that the cores of the machine, and what else they
// do, hardly matter). The last rank takes three, but with none. All else is what bellows-train
// does.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/trainer_fake_dataset.h"
#include "trainer/mpi_backend.h"
#include "trainer/step.h"
#include "trainer/team.h"

namespace bellows::trainer {
namespace {

constexpr std::int64_t kBatch = 128;

class SlowDataset : public FakeDataset {
 public:
  SlowDataset(double seconds, std::uint64_t samples)
      : FakeDataset({{16}, false, 4}), seconds_(seconds), samples_(samples) {}
  std::uint64_t size(Split) const override { return samples_; }
  void read(Split split, std::span<const std::uint64_t> ids,
            const SampleBuffers& out) const override {
    FakeDataset::read(split, ids, out);
    std::this_thread::sleep_for(
        std::chrono::duration<double>(seconds_ * static_cast<double>(ids.size())));
  }

 private:
  double seconds_;
  std::uint64_t samples_;
};

int run(const std::string& kind, int steps) {
  let_waiting_threads_yield();
  ElasticWorld elastic = ElasticWorld::open();
  at::set_num_threads(1);
  const World& world = elastic.world();
  Team team(world, torch::kCPU);
  Options options;
  options.model = "mlp";
  options.width = 16;
  options.batch = kBatch;
  options.shares = kind == "speed" ? "speed" : "equal";
  const bool slow = kind != "none" && world.rank() == world.size() - 1;
  const SlowDataset data(slow ? 0.003 : 0.001, static_cast<std::uint64_t>(kBatch * (steps + 1)));
  TrainingState state(options, data, torch::kCPU);
  StepClock clock;
  Course course;
  SampleRecord record("");
  std::vector<double> seconds;
  {
    Stepper stepper({options, data, torch::kCPU, state, clock}, team, elastic, course, record,
                    {kBatch}, 1);
    for (int step = 0; step < steps; ++step) {
      const auto start = std::chrono::steady_clock::now();
      stepper.step(kGoOn, {}, false);
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  if (world.rank() == 0) fmt::print("[{}]\n", fmt::join(seconds, ", "));
  team.sum(std::vector{1.0});
  return 0;
}

}  // namespace
}  // namespace bellows::trainer

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: shares_bench none|equal|speed STEPS\n");
    return 2;
  }
  return bellows::trainer::run(argv[1], std::atoi(argv[2]));
}
