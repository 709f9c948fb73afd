// SPDX-License-Identifier: Apache-2.0
// Checks of the trainer that need several ranks; started by a launcher. Ends with 0 and "all good"
// when every rank finds what it should.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "tests/programs/rank_checks.h"
#include "tests/unit/trainer_fake_dataset.h"
#include "trainer/errors.h"
#include "trainer/step/batch.h"
#include "trainer/step/evaluation.h"
#include "trainer/step/gradients.h"
#include "trainer/step/step.h"
#include "trainer/team/team.h"

namespace bellows::trainer {
namespace {

// ---- collectives against plain MPI --------------------------------------------------------------

template <typename T>
torch::Tensor values(int rank, std::int64_t size) {
  torch::Tensor t = torch::empty({size}, torch::CppTypeToScalarType<T>::value);
  T* at = t.mutable_data_ptr<T>();
  for (std::int64_t i = 0; i < size; ++i) at[i] = static_cast<T>((i * 7 + rank * 13) % 17 + 1);
  return t;
}

template <typename T>
void check_reductions(const World& world, MpiBackend& backend, MPI_Datatype type,
                      const std::string& name) {
  using c10d::ReduceOp;
  const std::pair<ReduceOp, MPI_Op> ops[] = {{ReduceOp(ReduceOp::SUM), MPI_SUM},
                                             {ReduceOp(ReduceOp::MAX), MPI_MAX},
                                             {ReduceOp(ReduceOp::MIN), MPI_MIN}};
  for (const auto& [op, mpi_op] : ops)
    // The last size is cut into pieces.
    for (const std::int64_t size : {1, 1000, 2500000}) {
      std::vector<at::Tensor> ours{values<T>(world.rank(), size)};
      c10d::AllreduceOptions options;
      options.reduceOp = op;
      backend.allreduce(ours, options)->wait();
      torch::Tensor plain = values<T>(world.rank(), size);
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, plain.data_ptr(), static_cast<int>(size), type, mpi_op,
                              world.communicator()),
                "MPI_Allreduce");
      expect(torch::equal(ours[0], plain), fmt::format("allreduce of {} {}", size, name));
    }
}

void check_collectives(const World& world) {
  MpiBackend backend(world.communicator());
  check_reductions<float>(world, backend, MPI_FLOAT, "float");
  check_reductions<double>(world, backend, MPI_DOUBLE, "double");
  check_reductions<std::int64_t>(world, backend, MPI_INT64_T, "int64");
  check_reductions<int>(world, backend, MPI_INT, "int32");
  check_reductions<std::uint8_t>(world, backend, MPI_UINT8_T, "uint8");

  for (int root = 0; root < world.size(); ++root) {
    std::vector<at::Tensor> t{values<float>(world.rank(), 1300000)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    backend.broadcast(t, options)->wait();
    expect(torch::equal(t[0], values<float>(root, 1300000)), "broadcast");
  }

  std::vector<at::Tensor> in{values<double>(world.rank(), 6)};
  std::vector<std::vector<at::Tensor>> out(1);
  for (int r = 0; r < world.size(); ++r) out[0].push_back(torch::zeros({6}, torch::kFloat64));
  backend.allgather(out, in)->wait();
  at::Tensor flat = torch::zeros({world.size() * 6}, torch::kFloat64);
  backend._allgather_base(flat, in[0])->wait();
  for (int r = 0; r < world.size(); ++r) {
    expect(torch::equal(out[0][r], values<double>(r, 6)), "allgather");
    expect(torch::equal(flat.slice(0, 6 * r, 6 * r + 6), values<double>(r, 6)), "allgather_base");
  }
  backend.barrier()->wait();

  // Many at once finish in order; the future has the tensor that was given.
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  std::vector<at::Tensor> results;
  for (int i = 0; i < 200; ++i) {
    std::vector<at::Tensor> t{torch::full({i + 1}, static_cast<double>(i), torch::kFloat64)};
    results.push_back(t[0]);
    works.push_back(backend.allreduce(t));
  }
  works.back()->wait();
  for (int i = 0; i < 200; ++i) {
    expect(works[i]->isCompleted(), "an earlier call completes before a later one");
    expect(results[i][0].item<double>() == static_cast<double>(i) * world.size(),
           "calls do not mix");
    const at::Tensor same = works[i]->getFuture()->value().toTensorVector()[0];
    expect(same.data_ptr() == results[i].data_ptr(), "the future has the tensor");
  }
}

void check_refusals(const World& world) {
  MpiBackend backend(world.communicator());
  const auto refused = [&](at::Tensor tensor, const char* what) {
    std::vector<at::Tensor> t{std::move(tensor)};
    try {
      backend.allreduce(t);
      expect(false, what);
    } catch (const c10::Error&) {
    }
  };
  refused(torch::zeros({3}, torch::kHalf), "half precision is refused");
  refused(torch::zeros({4, 4}).slice(1, 0, 2), "tensors with holes are refused");
}

// ---- errors -------------------------------------------------------------------------------------

template <typename F>
bool throws_mpi_error(F f) {
  try {
    f();
  } catch (const MpiError&) {
    return true;
  }
  return false;
}

/// A call that MPI refuses on every rank without communication.
c10::intrusive_ptr<c10d::Work> break_backend(c10d::Backend& backend) {
  std::vector<at::Tensor> t{torch::zeros({3})};
  c10d::BroadcastOptions options;
  options.rootRank = 1000000;
  return backend.broadcast(t, options);
}

void check_errors(const World& world) {
  MpiBackend backend(world.communicator());
  const auto first = break_backend(backend);
  std::vector<at::Tensor> t{torch::ones({3})};
  const auto second = backend.allreduce(t);
  expect(throws_mpi_error([&] { first->wait(); }), "wait() throws MpiError");
  expect(throws_mpi_error([&] { first->getFuture()->wait(), first->getFuture()->value(); }),
         "the future throws MpiError");
  expect(throws_mpi_error([&] { second->wait(); }), "calls behind an error fail like it");
  expect(throws_mpi_error([&] { backend.barrier()->wait(); }), "later calls fail like it");
}

void check_error_in_backward(const World& world) {
  Options o;
  o.model = "mlp";
  const FakeDataset data({{12}, false, 4});
  TrainingState state(o, data, torch::kCPU);
  auto backend = c10::make_intrusive<MpiBackend>(world.communicator());
  GradientReducer reducer(state.parameters, backend, 4096);
  break_backend(*backend);
  const std::vector<std::uint64_t> ids{1, 2, 3};
  state.model->draw_for({1, 0, ids});
  reducer.prepare();
  const auto loss =
      run_forward(*state.model, read_batch(data, Split::kTrain, ids, torch::kCPU)).loss;
  expect(throws_mpi_error([&] { loss.backward(); }), "an error in a bucket leaves backward()");
}

// ---- gradients ----------------------------------------------------------------------------------

struct Shares {
  std::string name;
  std::vector<std::size_t> sizes;  // by rank
};

std::vector<torch::Tensor> gradients_of(TrainingState& state) {
  std::vector<torch::Tensor> all;
  for (const auto& [name, p] : state.parameters) {
    all.push_back(p.grad().clone());
    p.mutable_grad().reset();
  }
  return all;
}

/// Loss over `ids`, weighted by 1 / whole; with none, zero times that of a sample.
torch::Tensor weighted_loss(TrainingState& state, const Dataset& data,
                            std::vector<std::uint64_t> ids, double whole) {
  const double weight = ids.empty() ? 0 : 1 / whole;
  if (ids.empty()) ids = {0};
  state.model->draw_for({1, 0, ids});
  Batch batch = read_batch(data, Split::kTrain, ids, torch::kCPU);
  if (batch.inputs.is_floating_point()) batch.inputs = batch.inputs.to(torch::kFloat64);
  return run_forward(*state.model, batch).loss * weight;
}

void check_gradients(const World& world, const std::string& model, const SampleShape& shape) {
  Options o;
  o.model = model;
  o.width = 16;
  o.length = 8;
  o.dropout = 0.3;
  const FakeDataset data(shape);
  TrainingState state(o, data, torch::kCPU);
  state.model->to(torch::kFloat64);
  auto backend = c10::make_intrusive<MpiBackend>(world.communicator());
  // Small buckets: many of them.
  GradientReducer reducer(state.parameters, backend, 512);
  expect(reducer.buckets() > 2, "several buckets");

  const auto ranks = static_cast<std::size_t>(world.size());
  Shares uneven{"uneven", {}};
  Shares idle{"one rank with all", std::vector<std::size_t>(ranks, 0)};
  Shares even{"even", std::vector<std::size_t>(ranks, 5)};
  for (std::size_t r = 0; r < ranks; ++r) uneven.sizes.push_back(r * r + 1);
  idle.sizes.back() = 6;
  // Twice round, so that each share follows each other.
  for (const Shares& shares : {even, uneven, idle, even, idle, uneven}) {
    const std::size_t whole =
        std::accumulate(shares.sizes.begin(), shares.sizes.end(), std::size_t{0});
    std::vector<std::uint64_t> all(whole);
    std::iota(all.begin(), all.end(), 0);
    weighted_loss(state, data, all, static_cast<double>(whole)).backward();
    const auto expected = gradients_of(state);

    const auto first =
        std::accumulate(shares.sizes.begin(), shares.sizes.begin() + world.rank(), std::size_t{0});
    const std::vector<std::uint64_t> own(
        all.begin() + static_cast<std::ptrdiff_t>(first),
        all.begin() + static_cast<std::ptrdiff_t>(first + shares.sizes[world.rank()]));
    // In one piece, and accumulated over two.
    for (const bool accumulate : {false, true}) {
      const auto half = static_cast<std::ptrdiff_t>(accumulate ? own.size() / 2 : 0);
      if (half > 0)
        weighted_loss(state, data, {own.begin(), own.begin() + half}, static_cast<double>(whole))
            .backward();
      const auto loss =
          weighted_loss(state, data, {own.begin() + half, own.end()}, static_cast<double>(whole));
      reducer.prepare();
      loss.backward();
      const auto got = gradients_of(state);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double scale = expected[i].abs().max().item<double>();
        const double off = (got[i] - expected[i]).abs().max().item<double>();
        expect(
            off <= 1e-12 * scale,
            fmt::format("{}, {} shares{}: gradient of {} off by {} of {}", model, shares.name,
                        accumulate ? ", accumulated" : "", state.parameters[i].first, off, scale));
      }
    }
  }
}

// ---- steps --------------------------------------------------------------------------------------

void check_steps(ElasticWorld& elastic) {
  const World& world = elastic.world();
  // Of 40 samples: batches of 32 and 8, then with fewer samples than ranks.
  for (const std::int64_t batch : {32, 2}) {
    Options o;
    o.model = "mlp";
    o.batch = batch;
    o.micro_batch = 3;
    const FakeDataset data({{12}, false, 4});
    TrainingState state(o, data, torch::kCPU);
    Team team(world, torch::kCPU);
    Course course;
    SampleRecord record("");
    StepClock clock;
    Stepper stepper({o, data, torch::kCPU, state, clock}, team, elastic, course, record, {o.batch},
                    1);
    double samples = 0;
    for (int step = 0; step < 6; ++step) {
      // Rank 0 decides; any rank's signal counts.
      const bool signal = step == 4 && world.rank() == world.size() - 1;
      const StepResult result = stepper.step(step == 3 ? kCheckpoint : kGoOn, {}, signal);
      samples += result.sums.targets;
      expect((result.control == kCheckpoint) == (step == 3), "the control word reaches all");
      expect(result.stop == (step == 4), "a signal on any rank reaches all");
    }
    expect(samples == static_cast<double>(state.samples), "samples are counted once");
    expect(team.agree(state.parameter_hash()), "ranks have the same parameters");
    const Sums test = evaluate(state, data, torch::kCPU, team);
    expect(test.targets == 40, "each test sample is looked at once");
  }
}

// What one step measures, against the gradients of all passes of all ranks, made here. With
// `groups` weights and biases are told apart.
void check_noise(ElasticWorld& elastic, std::int64_t batch, std::int64_t micro_batch,
                 std::int64_t logical_ranks, bool groups = false) {
  Options o;
  o.model = "mlp";
  o.batch = batch;
  o.micro_batch = micro_batch;
  o.logical_ranks = logical_ranks;
  o.measure_noise = true;
  o.noise_interval = 1;
  if (groups) {
    o.weight_decay = 0.1;
    o.no_decay = {"bias"};
  }
  const FakeDataset data({{12}, false, 4});
  TrainingState state(o, data, torch::kCPU);
  StepClock clock;
  Team team(elastic.world(), torch::kCPU);
  const Range whole = state.sampler.next(static_cast<std::uint64_t>(batch));
  const int parts = logical_ranks > 0 ? static_cast<int>(logical_ranks) : team.size();
  // Of the weights, or of all; and of the biases.
  using Squares = std::array<double, 2>;
  const auto passes_of = [&](Range range) {
    reset_gradients(state);
    run_passes({o, data, torch::kCPU, state, clock}, state.sampler.samples(range), {batch},
               1 / static_cast<double>(range.size()), [](const Sums&) {});
    Squares squares{};
    for (const auto& [name, p] : state.parameters)
      squares[groups && name.ends_with("bias") ? 1 : 0] +=
          p.grad().to(torch::kFloat64).square().sum().item<double>();
    return squares;
  };
  std::array<MicroGradients, 2> expected;
  for (int part = 0; part < parts; ++part) {
    const Range own = share(whole, part, parts);
    const auto micro = static_cast<std::uint64_t>(micro_batch > 0 ? micro_batch : batch);
    for (std::uint64_t at = own.begin; at < own.end; at += micro) {
      const Range pass{at, std::min(at + micro, own.end)};
      const Squares squares = passes_of(pass);
      for (std::size_t g = 0; g < 2; ++g) {
        ++expected[g].passes;
        expected[g].mean_square +=
            squares[g] * static_cast<double>(pass.size()) / static_cast<double>(batch);
      }
    }
  }
  const Squares squares = passes_of(whole);
  for (std::size_t g = 0; g < 2; ++g) expected[g].square_of_mean = squares[g];

  Course course;
  SampleRecord record("");
  Stepper stepper({o, data, torch::kCPU, state, clock}, team, elastic, course, record, {o.batch},
                  1);
  stepper.step(kGoOn, {}, false);
  const std::string what =
      fmt::format("noise of batch {} in passes of {} on {} ranks, {} logical{}", batch, micro_batch,
                  team.size(), logical_ranks, groups ? ", two groups" : "");
  const std::optional<NoiseEstimate> estimates[] = {estimate_noise(expected[0]),
                                                    estimate_noise(expected[1])};
  for (std::size_t g = 0; g < (groups ? 2 : 1); ++g) {
    const NoiseAverages& noise = state.adaptation.noise[g];
    const auto& estimate = estimates[g];
    const auto close = [&](double got, double wanted) {
      return std::abs(got / noise.weight - wanted) <= 1e-4 * expected[g].mean_square;
    };
    expect(noise.estimates == (estimate ? 1 : 0), what + " is measured where it can be");
    if (estimate && noise.estimates == 1)
      expect(close(noise.square, estimate->square) && close(noise.variance, estimate->variance),
             what);
  }
  if (!groups) expect(state.adaptation.noise[1].weight == 0, what + ": there is one group");
  // A rank alone with one pass a step compares two steps.
  stepper.step(kGoOn, {}, false);
  expect(state.adaptation.noise[0].estimates == (estimates[0]                             ? 2
                                                 : team.size() == 1 && logical_ranks == 0 ? 1
                                                                                          : 0),
         what + " is measured by two steps where one says nothing");
  expect(team.agree(state.common_hash()), what + " is the same on all ranks");
}

void check_team(const World& world) {
  Team team(world, torch::kCPU);
  expect(team.broadcast(world.rank() == 0 ? "text" : "") == "text", "broadcast of a text");
  expect(team.agree(5), "equal hashes agree");
  if (world.size() > 1)
    expect(!team.agree(world.rank() == 0 ? 5 << 1 : 6 << 1), "other hashes do not");
  const int last = world.size() - 1;
  try {
    together(team, [&] {
      if (world.rank() == last) throw DataError("no such file");
    });
    expect(false, "an error of one rank is one of all");
  } catch (const SharedError& e) {
    const std::string prefix = last > 0 ? fmt::format("rank {}: ", last) : "";
    expect(e.code() == kUsage && e.what() == prefix + "no such file", "all know the error");
  }
  expect(fair_threads(team) >= 1, "at least one thread");
}

void check_all(ElasticWorld& elastic) {
  const World& world = elastic.world();
  check_collectives(world);
  check_refusals(world);
  check_errors(world);
  check_error_in_backward(world);
  check_gradients(world, "mlp", {{12}, false, 4});
  check_gradients(world, "cnn", {{1, 12, 12}, false, 4});
  check_gradients(world, "resnet18", {{3, 8, 8}, false, 4});
  check_gradients(world, "transformer", {{8}, true, 256});
  check_steps(elastic);
  check_noise(elastic, 16, 0, 0);
  check_noise(elastic, 16, 3, 0);
  check_noise(elastic, 2, 0, 0);
  check_noise(elastic, 16, 0, 5);
  check_noise(elastic, 16, 0, 1);
  check_noise(elastic, 16, 3, 0, true);
  check_noise(elastic, 2, 0, 0, true);
  check_noise(elastic, 16, 0, 5, true);
  check_team(world);
}

}  // namespace
}  // namespace bellows::trainer

int main() { return bellows::trainer::check_on_ranks(bellows::trainer::check_all); }
