// SPDX-License-Identifier: Apache-2.0
// Ranks whose memory does not hold the passes that were planned; started by a launcher. Ends with 0
// and "all good" when every rank finds what it should.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <fstream>

#include "tests/programs/rank_checks.h"
#include "tests/unit/trainer_fake_dataset.h"
#include "trainer/errors.h"
#include "trainer/step/fitting.h"
#include "trainer/step/step.h"

namespace bellows::trainer {
namespace {

[[noreturn]] void run_out() {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 1 GiB.");
  std::abort();
}

/// Data that cannot be had for more than so many samples at once: a failure before the forward
/// pass.
class ScarceData : public FakeDataset {
 public:
  explicit ScarceData(SampleShape shape) : FakeDataset(std::move(shape)) {}
  void read(Split split, std::span<const std::uint64_t> ids,
            const SampleBuffers& out) const override {
    if (ids.size() > limit) run_out();
    FakeDataset::read(split, ids, out);
  }
  std::size_t limit = 1000;
};

/// A failure in the backward pass, when it comes to a parameter.
struct Fault {
  std::size_t parameter = 0;
  std::size_t limit = 1000;  // samples at once that fit
  int spared = 0;            // backward passes that fit in any case
  int failed = 0;
};

void arm(TrainingState& state, const std::shared_ptr<Fault>& fault) {
  Model* model = state.model.get();
  state.parameters[fault->parameter].second.register_hook(
      [fault, model](const torch::Tensor& gradient) {
        if (fault->spared-- <= 0 && model->draws().samples.size() > fault->limit) {
          ++fault->failed;
          run_out();
        }
        return gradient;
      });
}

Options options() {
  Options o;
  o.model = "mlp";
  o.width = 16;
  o.precision = "double";
  o.lr = 0.1;
  o.batch = 24;
  o.bucket_mb = 0.0005;  // several buckets
  return o;
}

struct Run {
  Run(const Options& o, const Dataset& data, Team& team, ElasticWorld& elastic)
      : state(o, data, torch::kCPU),
        record(""),
        context{o, data, torch::kCPU, state, clock},
        team_(team),
        elastic_(elastic) {}

  /// Gives how often a lack of memory was told.
  int steps(int count) {
    Stepper stepper(context, team_, elastic_, course, record, {context.options.batch}, 1);
    int told = 0;
    for (int step = 0; step < count; ++step) told += stepper.step(kGoOn, {}, false).fits > 0;
    return told;
  }
  double off(const Run& other) const {
    double most = 0;
    for (std::size_t i = 0; i < state.parameters.size(); ++i)
      most = std::max(most, (state.parameters[i].second - other.state.parameters[i].second)
                                .abs()
                                .max()
                                .item<double>());
    return most;
  }

  TrainingState state;
  Course course;
  SampleRecord record;
  StepClock clock;
  PassContext context;

 private:
  Team& team_;
  ElasticWorld& elastic_;
};

/// In the backward pass of any parameter, on one rank and on all; `spared` passes fit.
void check_faults(ElasticWorld& elastic, const std::string& what, Options o, std::size_t limit,
                  int spared) {
  const FakeDataset data({{12}, false, 4});
  Team team(elastic.world(), torch::kCPU);
  const int steps = 2 * team.size() + 2;  // until all know, and one by the new plan
  Run whole(o, data, team, elastic);
  whole.steps(steps);
  for (const bool everywhere : {false, true})
    for (std::size_t k = 0; k < whole.state.parameters.size(); ++k) {
      const std::string name = fmt::format("{} at {} on {}", what, whole.state.parameters[k].first,
                                           everywhere ? "all" : "one");
      Run run(o, data, team, elastic);
      const auto fault = std::make_shared<Fault>(Fault{k, limit, spared});
      const bool here = everywhere || team.rank() == team.size() - 1;
      if (here) arm(run.state, fault);
      const int told = run.steps(steps);
      if (here) expect(fault->failed > 0, name + ": the fault was met");
      expect(run.off(whole) < 1e-12, fmt::format("{}: off by {}", name, run.off(whole)));
      expect(team.agree(run.state.common_hash()), name + ": the same on all ranks");
      if (o.logical_ranks > 0) continue;
      expect(told == 1, fmt::format("{}: told {} times", name, told));
      const std::int64_t fits = run.state.adaptation.fits;
      expect(fits > 0 && fits <= static_cast<std::int64_t>(limit),
             fmt::format("{}: {} samples fit", name, fits));
      expect(run.state.adaptation.micro_batch <= fits, name + ": the plan follows");
      const int failed = fault->failed;
      run.steps(2);
      expect(fault->failed == failed, name + ": it is not met again");
    }
}

void check_data(ElasticWorld& elastic) {
  const Options o = options();
  ScarceData data({{12}, false, 4});
  Team team(elastic.world(), torch::kCPU);
  Run whole(o, data, team, elastic);
  Run run(o, data, team, elastic);
  whole.steps(3);
  if (team.rank() == 0) data.limit = 2;
  run.steps(3);
  expect(run.off(whole) < 1e-12, "before the forward pass");
  // One sample must fit. All ranks find that it does not, so none waits for another.
  data.limit = 0;
  const std::string start = fmt::format("rank {}: out of memory with a single sample", team.rank());
  try {
    run.steps(1);
    expect(false, "no memory for anything is an error");
  } catch (const std::runtime_error& e) {
    const std::string text = e.what();
    expect(text.starts_with(start) && text.find("Tried to allocate 1 GiB") != std::string::npos,
           "it names the rank, the sizes and the error: " + text);
  }
}

void check_sync(ElasticWorld& elastic) {
  Options o = options();
  o.model = "resnet18";
  o.norm = "batch";
  o.batch_norm = "sync";
  o.width = 4;
  ScarceData data({{3, 8, 8}, false, 4});
  Team team(elastic.world(), torch::kCPU);
  Run run(o, data, team, elastic);
  data.limit = 1;
  try {
    run.steps(1);
    expect(team.size() == 1, "passes that belong together cannot be made again by one rank");
  } catch (const std::runtime_error& e) {
    expect(std::string(e.what()).find("--micro-batch") != std::string::npos, e.what());
  }
}

// A step whose passes are not those that were planned says nothing of gradient noise.
void check_noise(ElasticWorld& elastic) {
  Options o = options();
  o.measure_noise = true;
  o.noise_interval = 1;
  o.micro_batch = 4;
  const FakeDataset data({{12}, false, 4});
  Team team(elastic.world(), torch::kCPU);
  Run run(o, data, team, elastic);
  const auto fault = std::make_shared<Fault>(Fault{0, 2});
  if (team.rank() == 0) arm(run.state, fault);
  const int steps = team.size() + 3;
  run.steps(steps);
  const NoiseAverages& noise = run.state.adaptation.noise.front();
  expect(noise.skipped > 0 && noise.estimates > 0 && noise.skipped + noise.estimates == steps,
         fmt::format("{} measurements, {} skipped", noise.estimates, noise.skipped));
  expect(std::isfinite(noise.square) && std::isfinite(noise.variance), "noise is finite");
}

std::size_t address_space() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * 4096;
}

// The real thing: the limit is the system's, on one rank.
void check_limit(ElasticWorld& elastic) {
  Options o = options();
  o.model = "resnet18";
  o.width = 8;
  o.lr = 0.01;
  o.bucket_mb = 1;
  const FakeDataset data({{3, 96, 96}, false, 4});
  Team team(elastic.world(), torch::kCPU);
  o.batch = 8 * team.size();
  Run whole(o, data, team, elastic);
  Run run(o, data, team, elastic);
  whole.steps(2);
  malloc_trim(0);
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit limit{address_space() + (std::size_t{64} << 20), before.rlim_max};
  const bool here = team.rank() == team.size() - 1;
  if (here) expect(setrlimit(RLIMIT_AS, &limit) == 0, "a limit is set");
  run.steps(2 + team.size());
  if (here) expect(setrlimit(RLIMIT_AS, &before) == 0, "it is lifted");
  whole.steps(team.size());
  const std::int64_t fits = run.state.adaptation.fits;
  expect(fits > 0 && fits < 8, fmt::format("{} of 8 samples fit", fits));
  expect(run.off(whole) < 1e-10, fmt::format("with a limit: off by {}", run.off(whole)));
}

void check_all(ElasticWorld& elastic) {
  const World& world = elastic.world();
  // Memory that is free is no longer part of the process.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  Options o = options();
  check_faults(elastic, "the only pass", o, 3, 0);
  check_faults(elastic, "the second step", o, 3, 1);
  o.micro_batch = 2;
  check_faults(elastic, "the first pass of several", o, 1, 0);
  // Each rank has 24 / ranks samples.
  check_faults(elastic, "the last pass of several", o, 1, 12 / world.size() - 1);
  o = options();
  o.logical_ranks = 4;
  check_faults(elastic, "a logical rank", o, 3, 0);
  check_data(elastic);
  check_sync(elastic);
  check_noise(elastic);
  check_limit(elastic);
}

}  // namespace
}  // namespace bellows::trainer

int main() { return bellows::trainer::check_on_ranks(bellows::trainer::check_all); }
