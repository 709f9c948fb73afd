// SPDX-License-Identifier: Apache-2.0
// shares_bench none|equal|speed STEPS asleep|computing: the seconds of training steps, as a JSON
// list, of ranks for which a sample takes a millisecond (asleep, so that the cores of the machine,
// and what else they do, hardly matter) or so many products of matrices (computing). The last rank
// takes three times as long, but with none. All else is what bellows-train does.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/trainer_fake_dataset.h"
#include "trainer/step/step.h"
#include "trainer/team/mpi_backend.h"
#include "trainer/team/team.h"

namespace bellows::trainer {
namespace {

constexpr std::int64_t kBatch = 128;

class SlowDataset : public FakeDataset {
 public:
  SlowDataset(int units, bool computing, std::uint64_t samples)
      : FakeDataset({{16}, false, 4}), units_(units), computing_(computing), samples_(samples) {}
  std::uint64_t size(Split) const override { return samples_; }
  void read(Split split, std::span<const std::uint64_t> ids,
            const SampleBuffers& out) const override {
    FakeDataset::read(split, ids, out);
    const auto units = static_cast<std::size_t>(units_) * ids.size();
    if (!computing_) return std::this_thread::sleep_for(std::chrono::milliseconds(units));
    constexpr std::size_t kProducts = 20;  // some tenths of a millisecond
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < kProducts * units; ++i) torch::mm_out(product_, factor_, factor_);
  }

 private:
  int units_;
  bool computing_;
  std::uint64_t samples_;
  torch::Tensor factor_ = torch::ones({64, 64});
  mutable torch::Tensor product_ = torch::empty({64, 64});
};

int run(const std::string& kind, int steps, bool computing) {
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
  const SlowDataset data(slow ? 3 : 1, computing, static_cast<std::uint64_t>(kBatch * (steps + 1)));
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
  if (argc != 4) {
    fmt::print(stderr, "usage: shares_bench none|equal|speed STEPS asleep|computing\n");
    return 2;
  }
  return bellows::trainer::run(argv[1], std::atoi(argv[2]), std::string(argv[3]) == "computing");
}
