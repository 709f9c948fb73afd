// SPDX-License-Identifier: Apache-2.0
// jacobi: the heat in a square plate by Jacobi's iteration, in a world that changes. An example of
// ElasticWorld in plain MPI, for a program whose state is spread over its ranks: here is the
// program, in jacobi_copies.h what makes it survive.
//
//   mpicxx -std=c++20 -O2 -o jacobi jacobi*.cc $(pkg-config --cflags --libs bellows-elastic)
//   bellows-run --elastic 1-8 -n 4 ./jacobi --size 1000 --iterations 20000 --report
//
// A death costs the iterations since the last copy (kCopyEvery at most), which are done again and
// give the same bits; a planned change costs none. Should rows be lost all the same, everything
// begins again; a program with more to lose would read its newest checkpoint there.
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "jacobi_copies.h"
#include "mpi_elastic/elastic_world.h"

namespace {

using bellows::check_mpi;
using bellows::ElasticWorld;
using bellows::MpiError;
using bellows::World;

constexpr int kCopyEvery = 10;
constexpr const char* kUsage = R"(usage: jacobi [--size N] [--iterations K] [--pause MS] [--report]
  --size N        rows and columns of the plate (500)
  --iterations K  (1000)
  --pause MS      after each iteration: slow enough to be watched (0)
  --report        say where the iteration stands, and what becomes of the world
)";

struct Options {
  int size = 500;
  int iterations = 1000;
  int pause = 0;
  bool report = false;
};

// Numbers of which a maximum can be taken; that of a rank without a result is 0.
struct Result {
  std::uint64_t known = 0;
  std::uint64_t residual = 0;  // the bits of a double
  std::uint64_t checksum = 0;
};

class Jacobi {
 public:
  explicit Jacobi(const Options& options);
  void run();

 private:
  double* row(int i) { return &old_[static_cast<std::size_t>(i) * width_]; }
  double sweep(const World& world);
  bool step(ElasticWorld& elastic);
  void distribute(ElasticWorld& elastic);
  bool share_result(ElasticWorld& elastic);
  void finish(ElasticWorld& elastic);
  Result compute_result(const World& world);

  const Options options_;
  const std::size_t width_;  // of a row: the plate's columns, and an edge on either side

  // The state that outlives a change.
  Copies copies_;
  Result result_;

  // What does not. Rows 1 to block_.rows are this rank's, those around them the neighbours' or the
  // plate's edge.
  Block block_{};
  int iteration_ = 0;
  std::vector<double> old_, next_;
};

Jacobi::Jacobi(const Options& options)
    : options_(options),
      width_(static_cast<std::size_t>(options.size) + 2),
      copies_(options.size, width_) {
  if (const auto file = bellows::saved_state()) {
    read_all(*file, &result_, sizeof result_);
    copies_.restore(*file);
  }
}

// Computes the next iteration beside the present one. Returns this rank's largest change.
double Jacobi::sweep(const World& world) {
  const int above = world.rank() > 0 ? world.rank() - 1 : MPI_PROC_NULL;
  const int below = world.rank() + 1 < world.size() ? world.rank() + 1 : MPI_PROC_NULL;
  const int width = static_cast<int>(width_), rows = block_.rows;
  check_mpi(MPI_Sendrecv(row(1), width, MPI_DOUBLE, above, 0, row(rows + 1), width, MPI_DOUBLE,
                         below, 0, world.communicator(), MPI_STATUS_IGNORE),
            "MPI_Sendrecv upwards");
  check_mpi(MPI_Sendrecv(row(rows), width, MPI_DOUBLE, below, 1, row(0), width, MPI_DOUBLE, above,
                         1, world.communicator(), MPI_STATUS_IGNORE),
            "MPI_Sendrecv downwards");
  double change = 0;
  for (int i = 1; i <= rows; ++i) {
    const double *up = row(i - 1), *here = row(i), *down = row(i + 1);
    double* next = &next_[static_cast<std::size_t>(i) * width_];
    for (std::size_t j = 1; j + 1 < width_; ++j) {
      next[j] = 0.25 * (up[j] + down[j] + here[j - 1] + here[j + 1]);
      change = std::max(change, std::abs(next[j] - here[j]));
    }
  }
  return change;
}

// One iteration. Returns rank 0's word on whether a change is due. It travels with the reduction
// that there is anyway, so all ranks have the same word after the same iteration.
bool Jacobi::step(ElasticWorld& elastic) {
  const World& world = elastic.world();
  double shared[] = {sweep(world), world.rank() == 0 && elastic.change_wanted() ? 1.0 : 0.0};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, shared, 2, MPI_DOUBLE, MPI_MAX, world.communicator()),
            "MPI_Allreduce of the residual");
  old_.swap(next_);
  ++iteration_;
  copies_.confirm(elastic);
  elastic.report({iteration_, 0});
  if (options_.report && world.rank() == 0 && iteration_ % 1000 == 0)
    std::printf("iteration %d: residual %.6e\n", iteration_, shared[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(options_.pause));
  return shared[1] > 0;
}

void Jacobi::run() {
  ElasticWorld::Settings settings;
  settings.save = [this](int file) {
    write_all(file, &result_, sizeof result_);
    copies_.save(file);
  };
  ElasticWorld elastic = ElasticWorld::open(std::move(settings));
  bool entered = false;  // this epoch, with rows of our own
  for (bool done = false; !done;) {
    std::optional<MpiError> failure;
    bool wanted = false;
    try {
      if (!entered) distribute(elastic);
      entered = true;
      if (result_.known || iteration_ == options_.iterations) {
        finish(elastic);
        done = true;
      } else if ((wanted = step(elastic))) {
        copies_.keep_all(elastic, iteration_, row(1));
      } else if (elastic.elastic() && iteration_ % kCopyEvery == 0) {
        copies_.keep(elastic, iteration_, row(1));
      }
    } catch (const MpiError& error) {  // somebody has died; in which call is all the same
      failure = error;
    }
    if (!failure && !wanted) continue;
    if (!elastic.change(failure ? &*failure : nullptr)) return;  // told to leave
    entered = false;
  }
  try {
    elastic.close();
  } catch (const MpiError& error) {  // a peer died after all was done
    std::fprintf(stderr, "jacobi: closing the world: %s\n", error.what());
  }
}

// The first thing in each epoch: agrees with the others on where to go on, and takes the rows that
// are this rank's now.
void Jacobi::distribute(ElasticWorld& elastic) {
  const World& world = elastic.world();
  if (options_.size < world.size()) throw std::runtime_error("more ranks than rows (--size)");
  if (share_result(elastic)) return;
  const Copies::Generation from = copies_.newest(world);
  iteration_ = from.iteration;
  block_ = block_of(world.rank(), world.size(), options_.size);
  old_.assign(width_ * static_cast<std::size_t>(block_.rows + 2), 0);  // cold edges
  if (block_.first == 0) std::fill(row(0), row(1), 1);                 // a hot one
  for (int i = 1; i <= block_.rows; ++i) {
    if (from.iteration == 0) {
      std::fill_n(row(i) + 1, options_.size, 0.5);
    } else {
      std::copy_n(&from.plate[width_ * static_cast<std::size_t>(block_.first + i - 1)], width_,
                  row(i));
    }
  }
  next_ = old_;  // for the edges
  if (world.rank() == 0 && from.lost && from.iteration == 0)
    std::fprintf(stderr, "jacobi: rows are lost with all their copies; beginning again\n");
  if (options_.report && world.rank() == 0)
    std::printf("epoch %u: %d ranks from iteration %d\n", elastic.epoch(), world.size(),
                iteration_);
  if (elastic.elastic()) copies_.keep(elastic, iteration_, row(1));
}

// True when there is a result. Others may have gone with it, and with their rows.
bool Jacobi::share_result(ElasticWorld& elastic) {
  Result result = result_;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &result, 3, MPI_UINT64_T, MPI_MAX,
                          elastic.world().communicator()),
            "MPI_Allreduce of the result");
  if (!result.known) return false;
  const ElasticWorld::Update update(elastic);
  result_ = result;
  return true;
}

// Nobody goes before all know the result: the barrier is behind the reductions, so whoever meets an
// error in it needs no rows of those who have gone.
void Jacobi::finish(ElasticWorld& elastic) {
  const World& world = elastic.world();
  if (!result_.known) {
    const Result result = compute_result(world);
    const ElasticWorld::Update update(elastic);
    result_ = result;
  }
  check_mpi(MPI_Barrier(world.communicator()), "MPI_Barrier at the end");
  if (world.rank() == 0)
    std::printf("iterations %d residual %.6e checksum %016llx\n", options_.iterations,
                std::bit_cast<double>(result_.residual),
                static_cast<unsigned long long>(result_.checksum));
}

// The checksum does not depend on who has which row, nor the residual on the order of a sum.
Result Jacobi::compute_result(const World& world) {
  double residual = sweep(world);
  std::uint64_t checksum = 0;
  for (int i = 1; i <= block_.rows; ++i) {
    auto hash = 0xcbf29ce484222325U + static_cast<std::uint64_t>(block_.first + i);
    for (std::size_t j = 0; j < width_; ++j)
      hash = (hash ^ std::bit_cast<std::uint64_t>(row(i)[j])) * 0x100000001b3U;
    checksum += hash;
  }
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &residual, 1, MPI_DOUBLE, MPI_MAX, world.communicator()),
            "MPI_Allreduce of the residual");
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &checksum, 1, MPI_UINT64_T, MPI_SUM, world.communicator()),
            "MPI_Allreduce of the checksum");
  return {1, std::bit_cast<std::uint64_t>(residual), checksum};
}

Options parse(int argc, char** argv) {
  Options options;
  const std::map<std::string, int*> numbers{{"--size", &options.size},
                                            {"--iterations", &options.iterations},
                                            {"--pause", &options.pause}};
  for (int i = 1; i < argc; ++i) {
    const auto number = numbers.find(argv[i]);
    if (number != numbers.end() && i + 1 < argc) {
      const char* end = argv[i + 1] + std::strlen(argv[i + 1]);
      const auto [stop, error] = std::from_chars(argv[++i], end, *number->second);
      if (error != std::errc{} || stop != end || *number->second < 0)
        throw std::invalid_argument(argv[i]);
    } else if (std::strcmp(argv[i], "--report") == 0) {
      options.report = true;
    } else {
      throw std::invalid_argument(argv[i]);
    }
  }
  if (options.size < 1 || options.size > 30000) throw std::invalid_argument("--size: 1 to 30000");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a line is there when it was written, pipe or not
  try {
    Jacobi(parse(argc, argv)).run();
    return 0;
  } catch (const bellows::Dismissed&) {  // told to go before it had entered a world
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "jacobi: not understood: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "jacobi: %s\n", error.what());
    return 1;
  }
}
