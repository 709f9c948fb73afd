// SPDX-License-Identifier: Apache-2.0
#include "trainer/bench/network.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace bellows::bench {

namespace {

constexpr int kTag = 17;
constexpr int kWarmUp = 3, kRounds = 21, kExchanges = 41;
constexpr std::size_t kSmall = 8, kLarge = std::size_t{1} << 20, kNameLength = 64;

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

/// One way: half of a round trip.
std::vector<double> exchange(MPI_Comm communicator, int own, int first, int second,
                             std::size_t bytes) {
  std::vector<char> buffer(bytes);
  const int count = static_cast<int>(bytes), other = own == first ? second : first;
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUp + kExchanges; ++i) {
    const double begin = MPI_Wtime();
    const auto send = [&] {
      check_mpi(MPI_Send(buffer.data(), count, MPI_BYTE, other, kTag, communicator), "MPI_Send");
    };
    if (own == first) send();
    check_mpi(
        MPI_Recv(buffer.data(), count, MPI_BYTE, other, kTag, communicator, MPI_STATUS_IGNORE),
        "MPI_Recv");
    if (own == second) send();
    if (i >= kWarmUp) seconds.push_back((MPI_Wtime() - begin) / 2);
  }
  return seconds;
}

struct Node {
  int rank;  // its first
  std::string name;
};

std::vector<Node> nodes_of(const World& world) {
  struct Entry {
    std::array<char, kNameLength> name;
    int local_rank;
  };
  Entry own{};
  gethostname(own.name.data(), own.name.size() - 1);
  own.local_rank = world.local_rank();
  std::vector<Entry> all(static_cast<std::size_t>(world.size()));
  check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE,
                          world.communicator()),
            "MPI_Allgather");
  std::vector<Node> nodes;
  for (int rank = 0; rank < world.size(); ++rank) {
    const Entry& entry = all[static_cast<std::size_t>(rank)];
    if (entry.local_rank == 0)
      nodes.push_back(
          {rank, std::string(entry.name.data()) + " (rank " + std::to_string(rank) + ")"});
  }
  return nodes;
}

}  // namespace

std::vector<CollectiveResult> measure_all_reduce(const World& world, std::uint64_t least,
                                                 std::uint64_t most) {
  std::vector<CollectiveResult> results;
  const MPI_Comm communicator = world.communicator();
  for (std::uint64_t bytes = std::max<std::uint64_t>(least, sizeof(float)); bytes <= most;
       bytes *= 4) {
    std::vector<float> values(bytes / sizeof(float), 0);
    std::vector<double> seconds;
    for (int i = 0; i < kWarmUp + kRounds; ++i) {
      check_mpi(MPI_Barrier(communicator), "MPI_Barrier");
      const double begin = MPI_Wtime();
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                              MPI_FLOAT, MPI_SUM, communicator),
                "MPI_Allreduce");
      double took = MPI_Wtime() - begin;
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, communicator),
                "MPI_Allreduce");
      if (i >= kWarmUp) seconds.push_back(took);
    }
    const double n = world.size(), median = quantile(seconds, 0.5);
    results.push_back({bytes, median, quantile(seconds, 0.25), quantile(seconds, 0.75),
                       2 * (n - 1) / n * static_cast<double>(bytes) / median});
  }
  return results;
}

std::vector<LinkResult> measure_links(const World& world) {
  const std::vector<Node> nodes = nodes_of(world);
  const MPI_Comm communicator = world.communicator();
  std::vector<LinkResult> links;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (std::size_t j = i + 1; j < nodes.size(); ++j) {
      const int first = nodes[i].rank, second = nodes[j].rank;
      std::array<double, 2> found{};
      if (world.rank() == first || world.rank() == second) {
        found[0] = quantile(exchange(communicator, world.rank(), first, second, kSmall), 0.5);
        found[1] = static_cast<double>(kLarge) /
                   quantile(exchange(communicator, world.rank(), first, second, kLarge), 0.5);
      }
      // The others wait here, and disturb nobody.
      check_mpi(MPI_Bcast(found.data(), 2, MPI_DOUBLE, first, communicator), "MPI_Bcast");
      links.push_back({nodes[i].name, nodes[j].name, found[0], found[1]});
    }
  }
  find_slow(links);
  return links;
}

void find_slow(std::vector<LinkResult>& links) {
  if (links.empty()) return;
  std::vector<double> latencies, bandwidths;
  for (const LinkResult& link : links) {
    latencies.push_back(link.latency);
    bandwidths.push_back(link.bandwidth);
  }
  const double latency = quantile(latencies, 0.5), bandwidth = quantile(bandwidths, 0.5);
  for (LinkResult& link : links)
    link.slow = link.bandwidth < bandwidth / 2 || link.latency > 2 * latency;
}

}  // namespace bellows::bench
