// SPDX-License-Identifier: Apache-2.0
// bellows-broker: changes the allocation of a running elastic Slurm job. bellows-run starts it, and
// tells it by the descriptor --words that the job has ended, by the word "end"; when that breaks
// off without the word, another bellows-run may take the job over, and starts a broker of its own.
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/program_options.hpp>
#include <cstdlib>
#include <future>
#include <iostream>
#include <thread>

#include "config.h"
#include "protocol/control_server.h"
#include "protocol/control_socket.h"
#include "scheduler/broker/broker.h"
#include "scheduler/broker/daemon_link.h"
#include "scheduler/cluster/slurm_cluster.h"
#include "scheduler/daemon/daemon_settings.h"

namespace {

using namespace bellows;
using namespace bellows::scheduler;
namespace asio = boost::asio;
namespace po = boost::program_options;

constexpr std::chrono::seconds kGiveBack{6};  // for the companions to be cancelled at the end
// After its agents have ended for want of bellows-run, for which slurmstepd tries to tell their
// srun, which is stopped as well: a job that is ended meanwhile can take longer than
// UnkillableStepTimeout, and slurmd then drains the node (_send_srun_resp_msg: six times
// MessageTimeout).
constexpr std::chrono::seconds kLetGo{120};
constexpr std::chrono::seconds kLookForBase{1};  // after the death of bellows-run

struct Options {
  std::string job;
  JobId slurm_job = 0;
  double grace = 60;
  int words = -1;
  bool standalone = false;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description all("bellows-broker is started by bellows-run in a Slurm job. Options");
  all.add_options()("job", po::value(&options.job)->required(), "as in 'bellows status'")(
      "slurm-job", po::value(&options.slurm_job)->required(), "the allocation")(
      "grace", po::value(&options.grace), "seconds to wait for another bellows-run")(
      "words", po::value(&options.words)->required(), "descriptor by which bellows-run speaks")(
      "standalone", po::bool_switch(&options.standalone), "do not look for bellowsd")(
      "help", "this text")("version", "the version");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).run(), values);
  if (values.contains("help")) {
    std::cout << all;
    return std::nullopt;
  }
  if (values.contains("version")) {
    std::cout << "bellows-broker " BELLOWS_VERSION "\n";
    return std::nullopt;
  }
  po::notify(values);
  if (!protocol::is_job_name(options.job)) throw std::runtime_error("--job: no name of a job");
  return options;
}

// Seconds between two looks at the cluster, and for bricks; for tests and for busy controllers.
void take_seconds(const char* name, Seconds& into) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return;
  char* end = nullptr;
  const double seconds = std::strtod(value, &end);
  if (*end != '\0' || !(seconds >= 0.1) || seconds > 3600) {
    throw std::runtime_error(std::string(name) + "='" + value +
                             "': must be from 0.1 to 3600 seconds");
  }
  into = Seconds(seconds);
}

BrokerSettings settings_for(const Options& options) {
  BrokerSettings settings;
  settings.base = options.slurm_job;
  if (const auto said = protocol::elastic_settings()) {
    settings.bounds = said->nodes;
    settings.mode = said->mode;
    settings.companions = said->companions;
    try {
      settings.economic = economic_settings(said->policy_arguments);
    } catch (const std::invalid_argument& wrong) {
      spdlog::warn("{}; --elastic-policy-args is left out", wrong.what());
    }
    if (said->grace) settings.leave = *said->grace;
  }
  take_seconds("BELLOWS_BROKER_POLL", settings.poll);
  Seconds brick(settings.brick_poll);
  take_seconds("BELLOWS_BRICK_POLL", brick);
  settings.brick_poll = std::chrono::ceil<std::chrono::seconds>(brick);
  settings.suspended = std::chrono::ceil<std::chrono::seconds>(Seconds(options.grace)) + kLetGo;
  return settings;
}

/// The process: the broker on its thread, the socket and the end of everything on this one.
class Service {
 public:
  explicit Service(const Options& options)
      : options_(options),
        settings_(settings_for(options)),
        socket_(protocol::control_socket(protocol::control_folder(), options.job)),
        run_(run_client(socket_)),
        cluster_(slurm_cluster()),
        words_(io_, options.words),
        signals_(io_, SIGTERM, SIGINT, SIGHUP),
        broker_(*cluster_, *run_, pace_, settings_, guidance_,
                [](const std::string& text) { spdlog::warn("{}", text); }) {}

  int run() {
    using protocol::ControlServer;
    server_ = std::make_unique<ControlServer>(
        io_, options_.job,
        [this](const protocol::Message& request, ControlServer::Reply reply) {
          broker_.serve(request, [this, reply = std::move(reply)](const protocol::Message& answer) {
            asio::post(io_, [reply, answer] { reply(answer); });
          });
        },
        protocol::ControlLimits{}, protocol::kBrokerSocketEnding);
    broker_.on_base_end = [this] { asio::post(io_, [this] { end(true); }); };
    hear_words();
    hear_signals();
    link_to_daemon();
    broker_.start();
    io_.run();
    return 0;
  }

 private:
  void hear_words() {
    words_.async_read_some(
        asio::buffer(word_), [this](const boost::system::error_code& failed, std::size_t n) {
          const bool in_order = !failed && std::string(word_.data(), n).starts_with("end");
          if (failed == asio::error::operation_aborted) return;
          end(in_order);
        });
  }

  // scancel, preemption or the time limit: what that means for the job is bellows-run's to decide,
  // but companions go at once when the base has been cancelled.
  void hear_signals() {
    signals_.async_wait([this](const boost::system::error_code& failed, int) {
      if (failed) return;
      hear_signals();
      if (looking_.valid() &&
          looking_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
        return;
      }
      looking_ = std::async(std::launch::async, [this] {
        try {
          const JobState state = cluster_->job(settings_.base).state;
          if (state == JobState::running || state == JobState::suspended) return;
        } catch (const ClusterError& no_answer) {
          if (no_answer.kind() != ClusterError::Kind::unknown_job) return;
        }
        asio::post(io_, [this] { end(true); });
      });
    });
  }

  // Where the site has one.
  void link_to_daemon() {
    const std::string file = daemon_configuration();
    if (options_.standalone) return;
    if (access(file.c_str(), F_OK) != 0) return;
    try {
      const DaemonSettings site = read_daemon_settings(file);
      sealer_ = protocol::munge_sealer();
      guidance_.on_change = [this] {
        asio::post(io_, [this] {
          if (link_) link_->changed();
        });
      };
      guidance_.on_order = [this] { broker_.look_now(); };
      guidance_.set_guided(true);  // until it is found to be away
      DaemonLink::Handlers handlers;
      handlers.report = [this] { return guidance_.job(); };
      handlers.guided = [this](bool guided) { guidance_.set_guided(guided); };
      handlers.order = [this](const Decision& order) { guidance_.order(order); };
      handlers.request = [this](const protocol::Message& request, const DaemonLink::Reply& reply) {
        broker_.serve(request, [this, reply](const protocol::Message& answer) {
          asio::post(io_, [reply, answer] { reply(answer); });
        });
      };
      link_ = std::make_unique<DaemonLink>(io_, site.host, site.port, site.users, *sealer_,
                                           std::move(handlers));
    } catch (const std::exception& wrong) {
      spdlog::warn("{}; the job goes on without bellowsd", wrong.what());
    }
  }

  void end(bool in_order) {
    if (std::exchange(ending_, true)) return;
    link_.reset();
    server_->close();
    pace_.stop();
    if (!in_order) {
      broker_.stop();
      if (another_comes()) std::_Exit(0);  // with a broker of its own
    }
    // Slurm's calls may take longer than there is time: companions end by themselves as well.
    std::thread([] {
      std::this_thread::sleep_for(kGiveBack);
      std::_Exit(1);
    }).detach();
    broker_.stop();
    broker_.care().cancel_companions();
    std::_Exit(0);
  }

  // bellows-run has been killed. False when nobody takes the job over, or there is none any more.
  bool another_comes() {
    const auto limit = std::chrono::steady_clock::now() + Seconds(options_.grace);
    auto look = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() < limit) {
      try {
        if (protocol::is_listening(socket_)) return true;
        if (std::chrono::steady_clock::now() >= look) {
          look += kLookForBase;
          const JobState state = cluster_->job(settings_.base).state;
          if (state != JobState::running && state != JobState::suspended) return false;
        }
      } catch (const ClusterError& failed) {
        if (failed.kind() == ClusterError::Kind::unknown_job) return false;
      } catch (const std::runtime_error&) {
        return false;  // the folder is gone
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return false;
  }

  Options options_;
  BrokerSettings settings_;
  std::string socket_;
  asio::io_context io_{1};
  std::unique_ptr<RunClient> run_;
  std::unique_ptr<Cluster> cluster_;
  BrokerPace pace_;
  asio::posix::stream_descriptor words_;
  asio::signal_set signals_;
  std::array<char, 64> word_{};
  std::unique_ptr<protocol::ControlServer> server_;
  std::future<void> looking_;
  bool ending_ = false;
  Guidance guidance_;
  std::unique_ptr<protocol::Sealer> sealer_;
  std::unique_ptr<DaemonLink> link_;
  Broker broker_;
};

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("broker"));
  spdlog::set_pattern("bellows-broker: %v");
  try {
    const std::optional<Options> options = parse(argc, argv);
    return options ? Service(*options).run() : 0;
  } catch (const po::error& wrong) {
    spdlog::error("{} (bellows-run starts it)", wrong.what());
    return 2;
  } catch (const std::exception& failed) {
    spdlog::error("{}", failed.what());
    return 1;
  }
}
