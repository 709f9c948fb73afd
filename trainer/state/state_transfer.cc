// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/state_transfer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>

#include "mpi_elastic/timeline.h"
#include "trainer/hash.h"
#include "trainer/state/flat_state.h"
#include "trainer/team/place.h"
#include "trainer/team/team.h"

namespace bellows::trainer {

namespace {

// A round is one call of MPI's: large enough to hide its latency, small enough for its counts and
// for the memory of a rank that has to send from many tensors.
constexpr std::size_t kWindow = std::size_t{16} << 20;

/// What each rank tells all others.
struct Record {
  std::int64_t step = -1;
  std::uint64_t node = 0;
  std::uint64_t size = 0;  // of the state
  std::uint64_t newcomer = 0;
  std::uint64_t failure = 0;
  Course::Note course;
};

std::uint64_t this_node() {
  const std::string name = host_name();
  return hash_of(std::as_bytes(std::span(name)));
}

template <typename T>
std::vector<T> all_gather(MPI_Comm communicator, const T& own) {
  int size = 0;
  check_mpi(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
  std::vector<T> all(static_cast<std::size_t>(size));
  check_mpi(
      MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, communicator),
      "MPI_Allgather");
  return all;
}

/// Counts and displacements of MPI_Alltoallv.
struct Parts {
  explicit Parts(std::size_t ranks) : counts(ranks, 0), starts(ranks, 0) {}
  void set(int rank, Range part, std::size_t window) {
    counts[static_cast<std::size_t>(rank)] = static_cast<int>(part.size());
    starts[static_cast<std::size_t>(rank)] = static_cast<int>(part.begin - window);
    any = any || part.size() > 0;
  }
  std::vector<int> counts;
  std::vector<int> starts;
  bool any = false;
};

class Transfer {
 public:
  Transfer(MPI_Comm communicator, const std::vector<std::vector<int>>& sources)
      : communicator_(communicator), sources_(sources) {
    check_mpi(MPI_Comm_rank(communicator, &rank_), "MPI_Comm_rank");
  }

  bool receives() const { return !sources_[static_cast<std::size_t>(rank_)].empty(); }

  /// One round, for the bytes [begin, end): from each source its share, or all from the first.
  void round(const FlatState& flat, std::size_t begin, std::size_t end, bool one_source,
             const std::function<void(std::size_t, std::span<const std::byte>)>& keep) {
    Parts out(sources_.size());
    Parts in(sources_.size());
    for (std::size_t to = 0; to < sources_.size(); ++to) {
      const auto count = static_cast<int>(sources_[to].size());
      for (int i = 0; i < (one_source ? std::min(count, 1) : count); ++i) {
        const int from = sources_[to][static_cast<std::size_t>(i)];
        const Range part = share({begin, end}, i, one_source ? 1 : count);
        if (from == rank_) out.set(static_cast<int>(to), part, begin);
        if (static_cast<int>(to) == rank_) in.set(from, part, begin);
      }
    }
    sent_.resize(out.any ? end - begin : 0);
    if (out.any) flat.read(begin, sent_);
    received_.resize(in.any ? end - begin : 0);
    check_mpi(MPI_Alltoallv(sent_.data(), out.counts.data(), out.starts.data(), MPI_BYTE,
                            received_.data(), in.counts.data(), in.starts.data(), MPI_BYTE,
                            communicator_),
              "MPI_Alltoallv");
    if (in.any) keep(begin, received_);
  }

 private:
  MPI_Comm communicator_;
  const std::vector<std::vector<int>>& sources_;
  int rank_ = 0;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
};

void compare_hashes(MPI_Comm communicator, const TrainingState& state) {
  const auto hashes = all_gather(communicator, state.common_hash());
  if (std::any_of(hashes.begin(), hashes.end(), [&](auto h) { return h != hashes.front(); }))
    throw std::runtime_error("the ranks' states differ after a change of the world");
}

}  // namespace

std::vector<std::vector<int>> plan_transfer(std::span<const std::int64_t> steps,
                                            std::span<const std::uint64_t> nodes) {
  std::vector<std::vector<int>> sources(steps.size());
  const std::int64_t furthest = *std::max_element(steps.begin(), steps.end());
  if (furthest < 0) return sources;
  for (std::size_t to = 0; to < steps.size(); ++to) {
    if (steps[to] == furthest) continue;
    std::vector<int> near;
    std::vector<int> all;
    for (std::size_t from = 0; from < steps.size(); ++from) {
      if (steps[from] != furthest) continue;
      all.push_back(static_cast<int>(from));
      if (nodes[from] == nodes[to]) near.push_back(static_cast<int>(from));
    }
    sources[to] = near.empty() ? all : near;
  }
  return sources;
}

void transfer(MPI_Comm communicator, const std::vector<std::vector<int>>& sources,
              ElasticWorld& world, TrainingState& state, std::size_t window) {
  Transfer rounds(communicator, sources);
  FlatState flat(state);
  // A state that counts is kept until the new one is there.
  const bool stage = rounds.receives() && state.complete;
  std::vector<std::byte> staging(stage ? flat.size() : 0);
  const auto keep = [&](std::size_t offset, std::span<const std::byte> bytes) {
    if (stage)
      std::copy(bytes.begin(), bytes.end(), staging.begin() + static_cast<std::ptrdiff_t>(offset));
    else
      flat.write(offset, bytes);
  };
  for (std::size_t begin = 0; begin < flat.size();) {
    const bool head = begin < flat.head();
    const std::size_t end = std::min(head ? flat.head() : flat.size(), begin + window);
    rounds.round(flat, begin, end, head, keep);
    begin = end;
  }
  if (!rounds.receives()) return;
  const ElasticWorld::Update update(world);
  if (stage) flat.write(0, staging);
  flat.finish();
  state.complete = true;
}

Gathering synchronise(ElasticWorld& world, const Arrival& own, TrainingState& state,
                      Course& course) {
  const TimelineSpan span("bring the state in step");
  const MPI_Comm communicator = world.world().communicator();
  auto noted = Course::Clock::now();
  const auto records = all_gather(
      communicator, Record{state.complete ? state.step : -1, this_node(), FlatState(state).size(),
                           own.newcomer, own.failure, course.note()});
  Gathering all;
  std::vector<std::int64_t> steps;
  std::vector<std::uint64_t> nodes;
  std::vector<Course::Note> notes;
  all.ranks = static_cast<int>(records.size());
  for (const Record& record : records) {
    if (record.size != records.front().size)
      throw std::runtime_error("the ranks do not train the same model");
    all.newcomers += static_cast<int>(record.newcomer);
    all.failure = all.failure || record.failure != 0;
    steps.push_back(record.step);
    nodes.push_back(record.node);
    notes.push_back(record.course);
  }
  all.nodes = static_cast<int>(std::set(nodes.begin(), nodes.end()).size());
  const auto leader = std::max_element(steps.begin(), steps.end()) - steps.begin();
  // The leader knows when it made its note; for others that was a moment ago.
  if (leader != world.world().rank()) noted = Course::Clock::now();
  all.complete = *std::max_element(steps.begin(), steps.end()) >= 0;
  const auto sources = plan_transfer(steps, nodes);
  const auto receivers =
      std::count_if(sources.begin(), sources.end(), [](const auto& s) { return !s.empty(); });
  if (receivers > 0) transfer(communicator, sources, world, state, kWindow);
  all.bytes = static_cast<std::uint64_t>(receivers) * records.front().size;
  {
    const ElasticWorld::Update update(world);
    course.take(combine(notes, static_cast<std::size_t>(leader)), noted);
  }
  if (all.complete && std::getenv("BELLOWS_CHECK_STATE") != nullptr)
    compare_hashes(communicator, state);
  return all;
}

}  // namespace bellows::trainer
