// SPDX-License-Identifier: Apache-2.0
// elastic_steps: a program whose world changes, without a model to train. Its state is a vector of
// which is known what it holds after a step, whoever took part (steps_state.h). Ends with 0 and,
// from rank 0, "final step S checksum C"; with 3 when a rank finds anything but what it should
// hold.
//
// The rule that keeps the ranks' states in step (docs/elastic.md): a rank applies a step when all
// reductions of it have completed here. That takes every rank's share, so after a failure nobody is
// more than one step ahead; in the next epoch all compare, and those behind take the state of a
// rank that is furthest.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "mpi_elastic/elastic_world.h"
#include "mpi_elastic/fault_point.h"
#include "tests/programs/steps_state.h"

namespace {

using bellows::check_mpi;
using bellows::ElasticWorld;
using bellows::MpiError;
using bellows::World;
using bellows::elastic::fault_point;
using bellows::steps::State;

constexpr const char* kUsage = R"(usage: elastic_steps [--option VALUE]…
  --steps N      steps to do (100)            --bytes N    size of the state (1048576)
  --batch N      integers per step (64)       --buckets N  reductions per step (2)
  --work MS      time that a step's work takes on each rank (0)
  --while FILE   ... as long as FILE exists, and no time after that: a test ends the job soon
  --end FILE     end, before all steps are done, after one in which rank 0 has found FILE
  --speed N      samples/s to report, of all ranks together (0)
  --best N       nodes to report as the best size and as those that pay (0: none)
  --record FILE  append a line of JSON for each share, commit and adopted state
)";

struct Options {
  std::int64_t steps = 100;
  std::int64_t bytes = 1 << 20;
  std::int64_t batch = 64;
  std::int64_t buckets = 2;
  std::int64_t work = 0;
  std::int64_t speed = 0;
  std::int64_t best = 0;
  std::string while_there;  // how long steps take has no part in their result
  std::string end_when;
  std::string record;
};

// ---- the record ---------------------------------------------------------------------------------

// One file for all ranks: a line is one write at the end of the file, whole even when the rank is
// killed. A share is recorded before it is given away, so the shares of an epoch in which anybody
// has committed the step are all there.
class Record {
 public:
  explicit Record(const std::string& path) {
    if (path.empty()) return;
    file_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file_ < 0) throw std::system_error(errno, std::generic_category(), path);
  }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  ~Record() {
    if (file_ >= 0) ::close(file_);
  }

  void write(const char* event, const ElasticWorld& world, std::int64_t step,
             const std::string& more = "") const {
    if (file_ < 0) return;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::string line =
        std::string("{\"event\": \"") + event +
        "\", \"microseconds\": " + std::to_string(now / std::chrono::microseconds(1)) +
        ", \"step\": " + std::to_string(step) + ", \"epoch\": " + std::to_string(world.epoch()) +
        ", \"rank\": " + std::to_string(world.world().rank()) +
        ", \"ranks\": " + std::to_string(world.world().size()) + more + "}\n";
    if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::system_error(errno, std::generic_category(), "the record");
  }

 private:
  int file_ = -1;
};

// The control word of a step, which is rank 0's.
constexpr int kChange = 1;  // leave this world after the step
constexpr int kEnd = 2;     // there is no step after this one

bool exists(const std::string& file) { return ::access(file.c_str(), F_OK) == 0; }

// ---- the program --------------------------------------------------------------------------------

class Program {
 public:
  explicit Program(Options options) : options_(std::move(options)), record_(options_.record) {
    if (const auto file = bellows::saved_state()) {
      state_ = bellows::steps::restore(*file);
    } else if (!bellows::is_joiner()) {
      state_ = bellows::steps::first_state(options_.bytes);
    }
  }

  void run();

 private:
  void synchronise(ElasticWorld& world);
  void take_state(ElasticWorld& world, int source, std::int64_t step);
  bool step(ElasticWorld& world);
  int control(const ElasticWorld& world) const;
  void finish(ElasticWorld& world);
  std::optional<bellows::SizeHints> hints() const;

  Options options_;
  Record record_;
  State state_;
  std::vector<double> sums_;  // of a step; the last is the control word
};

// After each change, for all members: compares, and brings those behind to the furthest.
void Program::synchronise(ElasticWorld& elastic) {
  const World& world = elastic.world();
  std::vector<std::int64_t> steps(static_cast<std::size_t>(world.size()));
  fault_point("compare");
  check_mpi(MPI_Allgather(&state_.step, 1, MPI_INT64_T, steps.data(), 1, MPI_INT64_T,
                          world.communicator()),
            "MPI_Allgather of the steps");
  const auto furthest = std::max_element(steps.begin(), steps.end());
  if (*furthest < 0) throw bellows::ElasticError("no member that has the state is left");
  fault_point("compared");
  const bool same = std::all_of(steps.begin(), steps.end(), [&](auto s) { return s == *furthest; });
  if (!same) take_state(elastic, static_cast<int>(furthest - steps.begin()), *furthest);
  bellows::steps::check_content(state_, options_.batch);
  if (world.rank() == 0) {
    std::printf("epoch %u: %d ranks at step %lld\n", elastic.epoch(), world.size(),
                static_cast<long long>(state_.step));
    std::fflush(stdout);
  }
}

// The present state stays as it is until the other has arrived as a whole: the source may die.
void Program::take_state(ElasticWorld& elastic, int source, std::int64_t step) {
  const World& world = elastic.world();
  const bool behind = state_.step < step;
  constexpr std::size_t kPiece = 1 << 17;  // elements: 1 MiB
  std::vector<double> staging;
  std::uint64_t head[] = {state_.values.size(), state_.ending ? 1U : 0U};
  check_mpi(MPI_Bcast(head, 2, MPI_UINT64_T, source, world.communicator()),
            "MPI_Bcast of the state's size");
  const std::uint64_t size = head[0];
  if (world.rank() != source) staging.resize(behind ? size : std::min<std::size_t>(size, kPiece));
  for (std::size_t at = 0; at < size; at += kPiece) {
    double* piece = world.rank() == source ? &state_.values[at] : &staging[behind ? at : 0];
    check_mpi(MPI_Bcast(piece, static_cast<int>(std::min(kPiece, size - at)), MPI_DOUBLE, source,
                        world.communicator()),
              "MPI_Bcast of the state");
    fault_point("transfer");
  }
  if (!behind) return;
  const ElasticWorld::Update update(elastic);
  state_.values.swap(staging);
  state_.step = step;
  state_.ending = head[1] != 0;
  record_.write("adopt", elastic, step, ", \"from\": " + std::to_string(source));
}

// One step. Returns rank 0's word on whether a change is due, the same on all ranks.
bool Program::step(ElasticWorld& elastic) {
  const World& world = elastic.world();
  const std::int64_t next = state_.step + 1;
  const std::int64_t first = options_.batch * world.rank() / world.size();
  const std::int64_t last = options_.batch * (world.rank() + 1) / world.size();
  record_.write("share", elastic, next,
                ", \"first\": " + std::to_string(first) + ", \"last\": " + std::to_string(last));

  const std::size_t elements = state_.values.size();
  sums_.resize(elements + 1);
  bellows::steps::share_of_step(next, options_.batch, first, last, sums_.data(), elements);
  if (options_.while_there.empty() || exists(options_.while_there))
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.work));
  sums_[elements] = world.rank() == 0 ? control(elastic) : 0;

  fault_point("share");
  const auto buckets = static_cast<std::size_t>(options_.buckets);
  for (std::size_t b = 0; b < buckets; ++b) {
    const std::size_t from = sums_.size() * b / buckets, to = sums_.size() * (b + 1) / buckets;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &sums_[from], static_cast<int>(to - from), MPI_DOUBLE,
                            MPI_SUM, world.communicator()),
              "MPI_Allreduce of a step");
    fault_point("bucket");
  }
  fault_point("reduced");
  const ElasticWorld::Update update(elastic);
  bellows::steps::apply_step(state_, sums_.data());
  const int control = static_cast<int>(sums_[elements]);
  state_.ending = (control & kEnd) != 0;
  record_.write("commit", elastic, next);
  fault_point("committed");
  return (control & kChange) != 0;
}

int Program::control(const ElasticWorld& elastic) const {
  return (elastic.change_wanted() ? kChange : 0) |
         (!options_.end_when.empty() && exists(options_.end_when) ? kEnd : 0);
}

// All have the last step when the barrier is over. Who still fails here finds the others gone, and
// comes here again in a world without them.
void Program::finish(ElasticWorld& elastic) {
  check_mpi(MPI_Barrier(elastic.world().communicator()), "MPI_Barrier at the end");
  bellows::steps::check_content(state_, options_.batch);
  if (elastic.world().rank() == 0) {
    std::printf("final step %lld checksum %016llx\n", static_cast<long long>(state_.step),
                static_cast<unsigned long long>(bellows::steps::checksum(state_)));
    std::fflush(stdout);
  }
}

std::optional<bellows::SizeHints> Program::hints() const {
  if (options_.best == 0) return std::nullopt;
  const auto nodes = static_cast<int>(options_.best);
  return bellows::SizeHints{nodes, nodes, nodes, nodes, 1000, 0.25, -0.125};
}

void Program::run() {
  ElasticWorld::Settings settings;
  settings.save = [this](int file) { bellows::steps::save(state_, file); };
  ElasticWorld world = ElasticWorld::open(std::move(settings));
  bool in_step = false;  // with the other members of the epoch
  for (bool done = false; !done;) {
    std::optional<MpiError> failure;
    bool wanted = false;
    try {
      if (!in_step) synchronise(world);
      in_step = true;
      if (!state_.ending && state_.step < options_.steps) {
        wanted = step(world);
        world.report({.step = state_.step,
                      .samples_per_second = static_cast<double>(options_.speed),
                      .batch = options_.batch,
                      .learning_rate = 0.125,
                      .hints = hints()});
      } else {
        finish(world);
        done = true;
      }
    } catch (const MpiError& error) {
      failure = error;
    }
    if (!failure && !wanted) continue;
    if (!world.change(failure ? &*failure : nullptr)) return;
    in_step = false;
  }
  try {
    world.close();
  } catch (const MpiError& error) {  // a peer died after all was done
    std::fprintf(stderr, "elastic_steps: closing the world: %s\n", error.what());
  }
}

std::int64_t number(const char* option, const char* text, std::int64_t least) {
  std::int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end || value < least)
    throw std::invalid_argument(std::string(option) + ": '" + text + "' is not a whole number of " +
                                std::to_string(least) + " or more");
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(name + ": a value is missing");
    const char* value = argv[i + 1];
    if (name == "--steps") {
      options.steps = number(argv[i], value, 0);
    } else if (name == "--bytes") {
      options.bytes = number(argv[i], value, sizeof(double));
    } else if (name == "--batch") {
      options.batch = number(argv[i], value, 1);
    } else if (name == "--buckets") {
      options.buckets = number(argv[i], value, 1);
    } else if (name == "--work") {
      options.work = number(argv[i], value, 0);
    } else if (name == "--speed") {
      options.speed = number(argv[i], value, 0);
    } else if (name == "--best") {
      options.best = number(argv[i], value, 0);
    } else if (name == "--while") {
      options.while_there = value;
    } else if (name == "--end") {
      options.end_when = value;
    } else if (name == "--record") {
      options.record = value;
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Program(parse(argc, argv)).run();
    return 0;
  } catch (const bellows::Dismissed&) {
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "elastic_steps: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const bellows::steps::WrongContent& error) {
    std::fprintf(stderr, "elastic_steps: wrong content: %s\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "elastic_steps: %s\n", error.what());
    return 1;
  }
}
