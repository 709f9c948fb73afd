// SPDX-License-Identifier: Apache-2.0
// The configuration file of bellowsd, which also tells others where it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "protocol/metrics_server.h"

namespace bellows::scheduler {

inline constexpr char kDaemonConfiguration[] = "/etc/bellows/bellowsd.conf";

/// Wrong content; `what()` names the file's line or option and what is allowed.
class SettingsError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct DaemonSettings {
  std::string host;  // where brokers and users find the daemon
  std::uint16_t port = 7327;
  std::string listen = "0.0.0.0";        // address of the interfaces to listen at
  std::set<std::uint32_t> users{0};      // uids: that the daemon may run as; others take no orders
  std::set<std::uint32_t> operators{0};  // uids: may steer the jobs of all users
  std::string policy = "turbo";
  std::string policy_arguments;
  std::chrono::milliseconds interval{10'000};  // between two looks at the cluster, at most
  std::chrono::milliseconds pause{1'000};      // and at least
  std::chrono::milliseconds forget{60'000};    // after which a job that is not heard of is left out
  bool dry_run = false;                        // decide and log, order nothing
  std::string log_level = "info";
  std::string event_file;                           // to which events are appended; "": none
  std::optional<protocol::MetricsAddress> metrics;  // where Prometheus asks
  std::string metrics_file;                         // ... or what it reads; "": none
};

/// $BELLOWSD_CONFIG, else kDaemonConfiguration.
std::string daemon_configuration();

/// Lines "name = value"; '#' begins a comment. `source` names them in errors. Throws SettingsError.
DaemonSettings parse_daemon_settings(std::istream& lines, const std::string& source);
/// Throws SettingsError, too, when the file cannot be read.
DaemonSettings read_daemon_settings(const std::string& file);

/// Each option: its name, default, meaning.
std::string daemon_settings_help();

}  // namespace bellows::scheduler
