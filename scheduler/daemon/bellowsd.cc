// SPDX-License-Identifier: Apache-2.0
// bellowsd: shares a Slurm cluster among its elastic jobs.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <boost/program_options.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "config.h"
#include "scheduler/cluster/slurm_cluster.h"
#include "scheduler/daemon/daemon.h"

namespace {

namespace po = boost::program_options;
namespace asio = boost::asio;
using namespace bellows::scheduler;

enum ExitCode { kEnded = 0, kFailed = 1, kUsage = 2 };

void set_up_log(const DaemonSettings& settings) {
  spdlog::set_level(spdlog::level::from_str(settings.log_level));
}

/// Until SIGTERM or SIGINT; SIGHUP reads the configuration again.
void serve(const std::string& file, const DaemonSettings& settings) {
  asio::io_context io;
  const std::unique_ptr<Cluster> cluster = slurm_cluster();
  const std::unique_ptr<bellows::protocol::Sealer> sealer = bellows::protocol::munge_sealer();
  Daemon daemon(io, settings, *cluster, *sealer);
  spdlog::info("bellowsd {} at {}:{}, policy {}{}", BELLOWS_VERSION, settings.listen, daemon.port(),
               settings.policy, settings.dry_run ? ", dry run" : "");
  asio::signal_set ends(io, SIGTERM, SIGINT), hangup(io, SIGHUP);
  ends.async_wait([&](const boost::system::error_code&, int) {
    daemon.end();
    io.stop();
  });
  std::function<void()> await_hangup = [&] {
    hangup.async_wait([&](const boost::system::error_code& failed, int) {
      if (failed) return;
      try {
        const DaemonSettings again = read_daemon_settings(file);
        set_up_log(again);
        daemon.configure(again);
        spdlog::info("{} read again: policy {}{}", file, again.policy,
                     again.dry_run ? ", dry run" : "");
        if (again.listen != settings.listen || again.port != settings.port) {
          spdlog::warn("it listens at {}:{} until a restart", settings.listen, daemon.port());
        }
      } catch (const SettingsError& wrong) {
        spdlog::error("{}; the settings stay as they were", wrong.what());
      }
      await_hangup();
    });
  };
  await_hangup();
  io.run();
  spdlog::info("ended; jobs go on without it");
  // A call to Slurm may still be waiting for an answer; there is nothing that must be done after
  // it.
  spdlog::shutdown();
  std::fflush(nullptr);
  _exit(kEnded);
}

int run(int argc, char** argv) {
  std::string file;
  po::options_description options("Options");
  options.add_options()("config,c", po::value(&file)->default_value(daemon_configuration()),
                        "the configuration file")(
      "check-config", "say whether the file is right, and end")("help,h", "this text")(
      "version,V", "the version");
  po::variables_map values;
  try {
    po::store(po::parse_command_line(argc, argv, options), values);
    po::notify(values);
  } catch (const po::error& wrong) {
    std::cerr << "bellowsd: " << wrong.what() << " (see bellowsd --help)\n";
    return kUsage;
  }
  if (values.count("help") > 0) {
    std::cout << "Usage: bellowsd [--config FILE] [--check-config]\n\n"
              << "Shares a Slurm cluster among its elastic jobs.\n\n"
              << options << "\nConfiguration file, one NAME = VALUE on a line:\n"
              << daemon_settings_help();
    return kEnded;
  }
  if (values.count("version") > 0) {
    std::cout << "bellowsd " BELLOWS_VERSION "\n";
    return kEnded;
  }
  // A file that grows over `ulimit -f` cannot be written, and that is all.
  signal(SIGXFSZ, SIG_IGN);
  DaemonSettings settings;
  try {
    settings = read_daemon_settings(file);
  } catch (const SettingsError& wrong) {
    std::cerr << "bellowsd: " << wrong.what() << '\n';
    return kUsage;
  }
  if (values.count("check-config") > 0) {
    std::cout << file << " is right\n";
    return kEnded;
  }
  spdlog::set_default_logger(spdlog::stdout_logger_mt("bellowsd"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  spdlog::flush_on(spdlog::level::trace);
  set_up_log(settings);
  try {
    serve(file, settings);
  } catch (const std::exception& failed) {
    spdlog::critical("{}", failed.what());
    return kFailed;
  }
  return kEnded;
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv); }
