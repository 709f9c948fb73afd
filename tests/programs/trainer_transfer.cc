// SPDX-License-Identifier: Apache-2.0
// Checks of what ranks do when they meet in a world: started by a launcher. Ends with 0 and "all
// good" when every rank finds what it should.
#include <fmt/format.h>

#include <cstdlib>

#include "tests/programs/rank_checks.h"
#include "tests/unit/trainer_fake_dataset.h"
#include "trainer/hash.h"
#include "trainer/state/course.h"
#include "trainer/state/flat_state.h"
#include "trainer/state/state_transfer.h"

namespace bellows::trainer {
namespace {

Options options() {
  Options o;
  o.model = "resnet18";
  o.norm = "batch";
  o.width = 4;
  o.optimizer = "adam";
  return o;
}

const FakeDataset& dataset() {
  static const FakeDataset data({{3, 8, 8}, false, 4});
  return data;
}

/// Every byte of the state a function of the step, and of `own` where ranks may differ.
void fill(TrainingState& state, std::int64_t step, int own) {
  const torch::NoGradGuard no_grad;
  int i = 0;
  for (const auto& [name, tensor] : state.buffers) tensor.fill_(static_cast<double>(step));
  state.generator.fill_(static_cast<double>(step * 10 + 10 + own));  // bytes
  const NamedTensors* const groups[] = {&state.parameters, &state.optimizer->state()};
  for (const NamedTensors* group : groups)
    for (const auto& [name, tensor] : *group)
      tensor.copy_(torch::arange(tensor.numel()).reshape(tensor.sizes()) + step * 1000 + ++i);
  state.step = step;
  state.samples = static_cast<std::uint64_t>(step) * 5;
  state.complete = step >= 0;
}

std::uint64_t hash_at(std::int64_t step) {
  TrainingState state(options(), dataset(), torch::kCPU);
  fill(state, step, 0);
  return state.common_hash();
}

/// Ranks come with `step_of(rank)`; all leave with the state of `furthest`.
template <typename F>
void check_meeting(ElasticWorld& world, const std::string& name, F step_of, std::int64_t furthest) {
  const int rank = world.world().rank();
  TrainingState state(options(), dataset(), torch::kCPU);
  fill(state, step_of(rank), rank);
  int receivers = 0;
  for (int r = 0; r < world.world().size(); ++r) receivers += step_of(r) == furthest ? 0 : 1;
  Course course;
  course.saved_step = rank;
  const Gathering all = synchronise(world, {step_of(rank) < 0, rank == 0}, state, course);
  expect(all.complete && state.complete, name + ": all have the state");
  expect(state.common_hash() == hash_at(furthest), name + ": it is that of the furthest");
  const auto mark = state.generator.view(-1)[0].item<int>();
  expect(mark / 10 - 1 == furthest, name + ": the generator comes along");
  expect(state.generator.eq(mark).all().item<bool>(), name + ": it is that of one rank");
  expect(all.bytes == static_cast<std::uint64_t>(receivers) * FlatState(state).size(),
         name + ": the bytes are counted");
  expect(all.failure && all.ranks == world.world().size(), name + ": what one knows all know");
  expect(course.saved_step == world.world().size() - 1, name + ": what is saved is saved");
}

void check_nothing_to_send(ElasticWorld& world) {
  TrainingState state(options(), dataset(), torch::kCPU);
  const std::uint64_t before = state.common_hash();
  Course course;
  const Gathering all = synchronise(world, {true, false}, state, course);
  expect(!all.complete && !state.complete && all.bytes == 0, "without a state there is none");
  expect(all.newcomers == world.world().size(), "newcomers are counted");
  expect(state.common_hash() == before, "and nothing changes");
}

void check_rounds(ElasticWorld& world) {
  const int rank = world.world().rank();
  const int size = world.world().size();
  // The last receives from all others; windows that do not divide anything, and one for all.
  std::vector<std::vector<int>> sources(static_cast<std::size_t>(size));
  for (int r = 0; r + 1 < size; ++r) sources.back().push_back(r);
  for (const std::size_t window : {std::size_t{4099}, std::size_t{1} << 30})
    for (const bool valid : {false, true}) {
      TrainingState state(options(), dataset(), torch::kCPU);
      fill(state, rank == size - 1 ? 6 : 7, rank);
      state.complete = valid || rank != size - 1;
      transfer(world.world().communicator(), sources, world, state, window);
      expect(state.common_hash() == hash_at(size > 1 ? 7 : 6),
             fmt::format("rounds of {} bytes", window));
    }
}

void check_other_model(ElasticWorld& world) {
  Options o = options();
  if (world.world().rank() == world.world().size() - 1) o.optimizer = "sgd";
  TrainingState state(o, dataset(), torch::kCPU);
  Course course;
  bool refused = false;
  try {
    synchronise(world, {}, state, course);
  } catch (const std::runtime_error&) {
    refused = true;
  }
  expect(refused == (world.world().size() > 1), "another model is noticed by all");
}

void check_all(ElasticWorld& world) {
  const int last = world.world().size() - 1;
  check_meeting(world, "all equal", [](int) { return 7; }, 7);
  check_meeting(world, "rank 0 is behind", [&](int r) { return r == 0 && last > 0 ? 7 : 8; }, 8);
  check_meeting(world, "only the last has it", [&](int r) { return r == last ? 3 : -1; }, 3);
  check_meeting(
      world, "the last has joined", [&](int r) { return r == last && r > 0 ? -1 : 4; }, 4);
  check_meeting(
      world, "joined and behind", [&](int r) { return r == 0       ? 9
                                                      : r % 2 == 1 ? 8
                                                                   : -1; }, 9);
  check_nothing_to_send(world);
  check_rounds(world);
  check_other_model(world);
}

}  // namespace
}  // namespace bellows::trainer

int main() {
  setenv("BELLOWS_CHECK_STATE", "1", 1);
  return bellows::trainer::check_on_ranks(bellows::trainer::check_all);
}
