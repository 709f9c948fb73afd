// SPDX-License-Identifier: Apache-2.0
// What the network between the ranks gives: all-reduces by size, and each pair of nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi_elastic/world.h"

namespace bellows::bench {

struct CollectiveResult {
  std::uint64_t bytes = 0;
  // Seconds of one all-reduce of so many bytes of float, of the slowest rank in each: quartiles.
  double median = 0, low = 0, high = 0;
  /// 2 (n-1)/n bytes per second: what each link of a ring carries, as nccl-tests count it. Does not
  /// fall with the number of ranks by itself.
  double bus_bandwidth = 0;
};

/// From `least` to `most` bytes, each four times the one before. Collective. Throws MpiError.
std::vector<CollectiveResult> measure_all_reduce(const World& world, std::uint64_t least,
                                                 std::uint64_t most);

struct LinkResult {
  std::string a, b;      // nodes
  double latency = 0;    // seconds, half a round trip of 8 bytes: the median
  double bandwidth = 0;  // bytes per second one way, by round trips of 1 MiB: the median
  bool slow = false;     // less than half of the median bandwidth, or more than twice the latency
};

/// Between the first ranks of each two nodes, one pair after the other. Collective; rank 0 gets the
/// results. Throws MpiError.
std::vector<LinkResult> measure_links(const World& world);

/// Marks those that stand out. (Of two links none does.)
void find_slow(std::vector<LinkResult>& links);

}  // namespace bellows::bench
