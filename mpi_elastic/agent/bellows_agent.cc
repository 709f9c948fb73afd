// SPDX-License-Identifier: Apache-2.0
// bellows-agent: the part of the launcher that runs on each node. bellows-run starts it.
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstring>

#include "config.h"
#include "mpi_elastic/agent/agent.h"
#include "mpi_elastic/common/agent_settings.h"
#include "mpi_elastic/common/greeting.h"

namespace {

int exit_code(bellows::elastic::AgentExit code) { return static_cast<int>(code); }

}  // namespace

int main(int argc, char** argv) {
  using namespace bellows::elastic;
  if (argc > 1) {
    if (std::strcmp(argv[1], "--version") == 0) {
      std::puts("bellows-agent " BELLOWS_VERSION);
      return 0;
    }
    std::fputs(
        "bellows-agent is started by bellows-run on each node; it takes no arguments.\n"
        "See bellows-run(1).\n",
        stderr);
    return std::strcmp(argv[1], "--help") == 0 ? 0 : exit_code(AgentExit::failed);
  }
  signal(SIGPIPE, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_logger_st("agent"));
  spdlog::set_pattern("bellows-agent: %v");
  try {
    AgentSettings settings = AgentSettings::from_environment();
    spdlog::set_pattern("bellows-agent on " + settings.node + ": %v");
    settings.check_place();
    // The library would look for a server to be a client of.
    for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_URI"}) unsetenv(name);
    boost::asio::io_context io(1);
    Welcome welcome = greet_coordinator(io, settings);
    io.restart();
    Agent agent(io, std::move(settings), welcome.node_id, std::move(welcome.channel));
    return exit_code(agent.run());
  } catch (const Refused& refused) {
    spdlog::error("bellows-run refuses this agent: {}", refused.what());
    return exit_code(AgentExit::refused);
  } catch (const std::exception& failed) {
    spdlog::error("{}", failed.what());
    return exit_code(AgentExit::failed);
  }
}
