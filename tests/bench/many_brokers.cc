// SPDX-License-Identifier: Apache-2.0
// many_brokers PORT JOBS [SECONDS]: the brokers of so many elastic jobs, each with its connection
// to the bellowsd at PORT of this machine and its own seal of MUNGE's, in one process (and thread).
// Each does at once what it is ordered. Prints the seconds from the first connection until all have
// had their order; goes on to report for SECONDS more.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "scheduler/broker/daemon_link.h"
#include "tests/bench/table_cluster.h"

namespace {

using namespace bellows::scheduler;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit(300);

struct Broker {
  ElasticJob job;
  bool ordered = false;
  std::unique_ptr<DaemonLink> link;
};

ElasticJob first_state(int number) {
  ElasticJob job;
  job.id = static_cast<JobId>(number);
  job.user = geteuid();
  job.name = "train";
  job.partition = bellows::bench::kTablePartition;
  job.manual = false;
  job.bounds = {1, 2, 1};
  job.held = {bellows::bench::nodes_of_job(number).back()};
  job.fixed = {job.held[0]};
  job.ranks = 1;
  return job;
}

void connect(Broker& broker, boost::asio::io_context& io, std::uint16_t port,
             bellows::protocol::Sealer& sealer) {
  DaemonLink::Handlers handlers;
  handlers.report = [&broker] { return broker.job; };
  handlers.guided = [](bool) {};
  handlers.order = [&broker](const Decision& order) {
    if (order.grow != 1) return;
    broker.ordered = true;
    broker.job.held = bellows::bench::nodes_of_job(static_cast<int>(broker.job.id));
    broker.job.ranks = 2;
  };
  handlers.request = [](const bellows::protocol::Message&, const DaemonLink::Reply&) {};
  broker.link = std::make_unique<DaemonLink>(io, "127.0.0.1", port, std::set{geteuid()}, sealer,
                                             std::move(handlers));
}

int run(std::uint16_t port, int jobs, std::chrono::seconds more) {
  boost::asio::io_context io;
  const auto sealer = bellows::protocol::munge_sealer();
  std::vector<std::unique_ptr<Broker>> brokers;
  const auto begun = Clock::now();
  for (int i = 1; i <= jobs; ++i) {
    brokers.push_back(std::make_unique<Broker>());
    brokers.back()->job = first_state(i);
    connect(*brokers.back(), io, port, *sealer);
  }
  const auto is_ordered = [](const auto& broker) { return broker->ordered; };
  while (!std::ranges::all_of(brokers, is_ordered)) {
    if (Clock::now() - begun > kLimit) {
      std::fprintf(stderr, "many_brokers: only %td of %d jobs had an order\n",
                   std::ranges::count_if(brokers, is_ordered), jobs);
      return 1;
    }
    io.run_for(std::chrono::milliseconds(2));
  }
  std::printf("%.3f\n", std::chrono::duration<double>(Clock::now() - begun).count());
  std::fflush(stdout);
  io.run_for(more);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  spdlog::set_level(spdlog::level::off);
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: many_brokers PORT JOBS [SECONDS]\n");
    return 2;
  }
  try {
    return run(static_cast<std::uint16_t>(std::atoi(argv[1])), std::atoi(argv[2]),
               std::chrono::seconds(argc == 4 ? std::atoi(argv[3]) : 0));
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "many_brokers: %s\n", failed.what());
    return 1;
  }
}
