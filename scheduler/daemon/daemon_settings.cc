// SPDX-License-Identifier: Apache-2.0
#include "scheduler/daemon/daemon_settings.h"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <boost/program_options.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "scheduler/policy/cluster_policy.h"

namespace bellows::scheduler {
namespace po = boost::program_options;

namespace {

struct Raw {
  std::string address, users, operators, metrics;
  double interval = 0, pause = 0, forget = 0;
};

po::options_description description(DaemonSettings& settings, Raw& raw) {
  po::options_description all;
  all.add_options()(
      "address", po::value(&raw.address),
      "HOST:PORT where brokers and users find the daemon; must be given. The usual port "
      "is 7327")("listen", po::value(&settings.listen)->default_value("0.0.0.0"),
                 "the address to listen at")("user", po::value(&raw.users)->default_value("root"),
                                             "accounts, separated by commas, that the daemon may "
                                             "run as; brokers take orders from no others")(
      "operators", po::value(&raw.operators)->default_value("root"),
      "users, separated by commas, who may change the size of other users' jobs")(
      "policy", po::value(&settings.policy)->default_value("turbo"),
      "how nodes are shared: fair, afs, turbo or economic")(
      "policy-arguments", po::value(&settings.policy_arguments)->default_value(""),
      "of the policy: K=V,K=V")("interval", po::value(&raw.interval)->default_value(10, "10"),
                                "seconds between two looks at the cluster (0.1 to 3600)")(
      "pause", po::value(&raw.pause)->default_value(1, "1"),
      "seconds between two looks at least, whatever happens (0.1 to 3600)")(
      "forget", po::value(&raw.forget)->default_value(60, "60"),
      "seconds after which a job that does not report is left out (1 to 86400)")(
      "dry-run", po::value(&settings.dry_run)->default_value(false, "false"),
      "true: decide and log, but order nothing")(
      "log-level", po::value(&settings.log_level)->default_value("info"),
      "debug, info, warning or error")(
      "event-file", po::value(&settings.event_file)->default_value(""),
      "append a line of JSON for each event, for `bellows picture`")(
      "metrics", po::value(&raw.metrics)->default_value(""),
      "[ADDRESS:]PORT: answer Prometheus there, at /metrics")(
      "metrics-file", po::value(&settings.metrics_file)->default_value(""),
      "write the same to a file every 5 seconds, for the textfile collector");
  return all;
}

std::set<std::uint32_t> uids(const std::string& names, const std::string& option) {
  std::set<std::uint32_t> all;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    std::array<char, 16384> buffer;
    passwd entry{};
    passwd* found = nullptr;
    if (getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
        found == nullptr) {
      throw SettingsError(option + ": there is no user '" + name + "' on this machine");
    }
    all.insert(found->pw_uid);
  }
  if (all.empty()) throw SettingsError(option + ": names nobody");
  return all;
}

std::chrono::milliseconds duration(double seconds, double least, double most, const char* option) {
  if (!(seconds >= least && seconds <= most)) {
    std::ostringstream text;
    text << option << ": must be from " << least << " to " << most << " seconds, not " << seconds;
    throw SettingsError(text.str());
  }
  return std::chrono::milliseconds(static_cast<long>(seconds * 1000));
}

void set_address(DaemonSettings& settings, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  char* end = nullptr;
  const long number = std::strtol(port.c_str(), &end, 10);
  if (text.empty()) throw SettingsError("address: is missing; must be HOST:PORT");
  if (colon == 0 || port.empty() || *end != '\0' || number < 0 || number > 65535) {
    throw SettingsError("address: must be HOST:PORT, not '" + text + "'");
  }
  settings.host = text.substr(0, colon);
  settings.port = static_cast<std::uint16_t>(number);
}

}  // namespace

std::string daemon_configuration() {
  const char* said = std::getenv("BELLOWSD_CONFIG");
  return said != nullptr && *said != '\0' ? said : kDaemonConfiguration;
}

DaemonSettings parse_daemon_settings(std::istream& lines, const std::string& source) {
  DaemonSettings settings;
  Raw raw;
  try {
    const po::options_description known = description(settings, raw);
    po::variables_map values;
    po::store(po::parse_config_file(lines, known), values);
    po::notify(values);
    set_address(settings, raw.address);
    settings.users = uids(raw.users, "user");
    settings.users.insert(0);
    settings.operators = uids(raw.operators, "operators");
    settings.operators.insert(0);
    settings.interval = duration(raw.interval, 0.1, 3600, "interval");
    settings.pause = duration(raw.pause, 0.1, 3600, "pause");
    settings.forget = duration(raw.forget, 1, 86400, "forget");
    make_cluster_policy(settings.policy, settings.policy_arguments);
    const std::set<std::string> levels{"debug", "info", "warning", "error"};
    try {
      if (!raw.metrics.empty()) settings.metrics = protocol::MetricsAddress::parse(raw.metrics);
    } catch (const std::invalid_argument& wrong) {
      throw SettingsError(std::string("metrics: ") + wrong.what());
    }
    if (!levels.contains(settings.log_level)) {
      throw SettingsError("log-level: must be debug, info, warning or error, not '" +
                          settings.log_level + "'");
    }
  } catch (const SettingsError& wrong) {
    throw SettingsError(source + ": " + wrong.what());
  } catch (const po::error& wrong) {
    throw SettingsError(source + ": " + wrong.what() + " (see bellowsd --help)");
  } catch (const std::invalid_argument& wrong) {
    throw SettingsError(source + ": " + wrong.what());
  }
  return settings;
}

DaemonSettings read_daemon_settings(const std::string& file) {
  std::ifstream lines(file);
  if (!lines) throw SettingsError("cannot read " + file + ": " + std::strerror(errno));
  return parse_daemon_settings(lines, file);
}

std::string daemon_settings_help() {
  DaemonSettings settings;
  Raw raw;
  std::ostringstream text;
  const po::options_description known = description(settings, raw);
  for (const auto& option : known.options()) {
    text << "  " << option->long_name() << " = " << option->format_parameter() << "\n      "
         << option->description() << '\n';
  }
  return text.str();
}

}  // namespace bellows::scheduler
