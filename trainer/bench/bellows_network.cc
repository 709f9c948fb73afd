// SPDX-License-Identifier: Apache-2.0
// bellows-network: what the network between the ranks of a job gives. See bellows-network(1).
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <charconv>
#include <cstring>
#include <string>

#include "config.h"
#include "trainer/bench/network.h"

namespace bellows::bench {
namespace json = boost::json;

namespace {

constexpr std::uint64_t kLeast = 1 << 10, kMost = 64 << 20, kLimit = 2047 << 20;
constexpr const char* kHelp =
    "usage: bellows-run -n RANKS bellows-network [--json] [--most BYTES]\n"
    "Measures all-reduces of 1 KiB to BYTES (64 MiB), and latency and bandwidth between each two\n"
    "nodes; names links that are slower than the others.\n";

void print_json(const World& world, const std::vector<CollectiveResult>& sizes,
                const std::vector<LinkResult>& links) {
  json::array collectives, pairs;
  for (const CollectiveResult& r : sizes)
    collectives.push_back({{"bytes", r.bytes},
                           {"seconds", {{"median", r.median}, {"low", r.low}, {"high", r.high}}},
                           {"bus_bandwidth", r.bus_bandwidth}});
  for (const LinkResult& link : links)
    pairs.push_back({{"a", link.a},
                     {"b", link.b},
                     {"latency", link.latency},
                     {"bandwidth", link.bandwidth},
                     {"slow", link.slow}});
  fmt::print("{}\n", json::serialize(json::object{{"version", 1},
                                                  {"ranks", world.size()},
                                                  {"all_reduce", std::move(collectives)},
                                                  {"links", std::move(pairs)}}));
}

void print_text(const World& world, const std::vector<CollectiveResult>& sizes,
                const std::vector<LinkResult>& links) {
  fmt::print("all-reduce of float on {} ranks\n{:>10}  {:>10}  {:>21}  {:>8}\n", world.size(),
             "bytes", "median us", "quartiles us", "bus GB/s");
  for (const CollectiveResult& r : sizes)
    fmt::print("{:>10}  {:>10.1f}  {:>10.1f} {:>10.1f}  {:>8.3f}\n", r.bytes, 1e6 * r.median,
               1e6 * r.low, 1e6 * r.high, r.bus_bandwidth / 1e9);
  if (links.empty()) return;
  fmt::print("\n{:<24}  {:<24}  {:>10}  {:>8}\n", "between node", "and node", "latency us", "GB/s");
  bool slow = false;
  for (const LinkResult& link : links) {
    fmt::print("{:<24}  {:<24}  {:>10.1f}  {:>8.3f}{}\n", link.a, link.b, 1e6 * link.latency,
               link.bandwidth / 1e9, link.slow ? "  slow" : "");
    slow = slow || link.slow;
  }
  if (slow)
    fmt::print("\nslow: less than half of the median bandwidth, or more than twice the latency\n");
}

/// 0 when it is no size.
std::uint64_t size_from(const std::string& text) {
  std::uint64_t bytes = 0;
  const char* const end = text.data() + text.size();
  const auto [after, failed] = std::from_chars(text.data(), end, bytes);
  return failed == std::errc() && after == end && bytes >= kLeast && bytes <= kLimit ? bytes : 0;
}

int measure(bool as_json, std::uint64_t most) {
  World world = World::open();
  const auto sizes =
      world.size() > 1 ? measure_all_reduce(world, kLeast, most) : std::vector<CollectiveResult>();
  const auto links = measure_links(world);
  if (world.rank() == 0) (as_json ? print_json : print_text)(world, sizes, links);
  world.close();
  return 0;
}

int run(int argc, char** argv) {
  bool as_json = false;
  std::uint64_t most = kMost;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      as_json = true;
    } else if (argument == "--most" && i + 1 < argc && size_from(argv[i + 1]) > 0) {
      most = size_from(argv[++i]);
    } else if (argument == "--most") {
      fmt::print(stderr, "bellows-network: --most needs a number of bytes from {} to {}\n", kLeast,
                 kLimit);
      return 2;
    } else if (argument == "--help" || argument == "--version") {
      fmt::print("{}", argument == "--help" ? kHelp : "bellows-network " BELLOWS_VERSION "\n");
      return 0;
    } else {
      fmt::print(stderr, "bellows-network: unknown argument {}\n{}", argument, kHelp);
      return 2;
    }
  }
  try {
    return measure(as_json, most);
  } catch (const MpiError& e) {
    fmt::print(stderr, "bellows-network: {}\n", e.what());
    std::fflush(stdout);
    _exit(1);
  }
}

}  // namespace

}  // namespace bellows::bench

int main(int argc, char** argv) { return bellows::bench::run(argc, argv); }
