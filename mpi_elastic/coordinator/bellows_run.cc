// SPDX-License-Identifier: Apache-2.0
// bellows-run: starts an MPI program and stays with it until it ends.
#include <fcntl.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "mpi_elastic/coordinator/allocation.h"
#include "mpi_elastic/coordinator/coordinator.h"
#include "mpi_elastic/coordinator/job_file.h"
#include "mpi_elastic/coordinator/run_options.h"

namespace {

// A descriptor 0 to 2 that is closed would be given to the next file or socket, and what is meant
// for the terminal would go there.
void open_standard_streams() {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bellows::elastic;
  open_standard_streams();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ,
         SIG_IGN);  // a file that grows over `ulimit -f` cannot be written, and that is all
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
    if (options.reattach) {
      JobRecord left = read_job(*options.reattach);
      left.options.start_seconds = options.start_seconds;
      left.options.broker = options.broker;
      left.options.verbose = options.verbose;
      left.options.tag_output = left.options.tag_output || options.tag_output;
      Coordinator coordinator(io, std::move(left));
      return coordinator.run();
    }
    Allocation allocation = find_allocation(options);
    take_elastic_bounds(options, allocation);
    Coordinator coordinator(io, std::move(options), std::move(allocation));
    return coordinator.run();
  } catch (const UsageError& wrong) {
    spdlog::error("{} (bellows-run --help lists the options)", wrong.what());
    return 2;
  } catch (const NoSuchJob& none) {
    spdlog::error("{}", none.what());
    return 3;
  } catch (const std::exception& failed) {
    spdlog::error("{}", failed.what());
    return 1;
  }
}
