// SPDX-License-Identifier: Apache-2.0
// bellows-run: starts an MPI program and stays with it until it ends.
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>

#include "mpi_elastic/allocation.h"
#include "mpi_elastic/coordinator.h"
#include "mpi_elastic/run_options.h"

int main(int argc, char** argv) {
  using namespace bellows::elastic;
  signal(SIGPIPE, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("run"));
  spdlog::set_pattern("bellows-run: %v");
  spdlog::set_level(spdlog::level::warn);
  try {
    RunOptions options = parse_run_options(argc, argv);
    if (options.verbose) {
      spdlog::set_level(spdlog::level::info);
      spdlog::set_pattern("bellows-run: [%T.%e] %v");
    }
    boost::asio::io_context io(1);
    Allocation allocation = find_allocation(options);
    Coordinator coordinator(io, std::move(options), std::move(allocation));
    return coordinator.run();
  } catch (const UsageError& wrong) {
    spdlog::error("{} (bellows-run --help lists the options)", wrong.what());
    return 2;
  } catch (const std::exception& failed) {
    spdlog::error("{}", failed.what());
    return 1;
  }
}
