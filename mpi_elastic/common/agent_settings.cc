// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/common/agent_settings.h"

#include <cstdlib>
#include <stdexcept>

#include "mpi_elastic/common/process.h"

namespace bellows::elastic {
namespace {

std::string required(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    throw std::runtime_error(std::string(name) +
                             " is not set: bellows-agent is started by bellows-run, not by hand");
  }
  return value;
}

double seconds(const char* name, double otherwise, bool may_be_zero = false) {
  const char* value = std::getenv(name);
  if (value == nullptr) return otherwise;
  char* end = nullptr;
  const double number = std::strtod(value, &end);
  if (end == value || *end != '\0' || !(number > 0 || (may_be_zero && number == 0))) {
    throw std::runtime_error(std::string(name) + "='" + value + "' is no number of seconds");
  }
  return number;
}

}  // namespace

AgentSettings AgentSettings::from_environment() {
  AgentSettings settings;
  settings.node = required("BELLOWS_NODE");
  settings.secret = required("BELLOWS_SECRET");
  settings.job = required("BELLOWS_JOB");
  std::string rest = required("BELLOWS_COORDINATOR");
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    settings.addresses.push_back(rest.substr(0, comma));
    rest.erase(0, comma == std::string::npos ? rest.size() : comma + 1);
  }
  settings.connect_seconds = seconds("BELLOWS_CONNECT_SECONDS", settings.connect_seconds);
  settings.silence_seconds = seconds("BELLOWS_SILENCE_SECONDS", settings.silence_seconds);
  settings.rank_silence_seconds =
      seconds("BELLOWS_RANK_SILENCE_SECONDS", settings.rank_silence_seconds);
  settings.grace_seconds = seconds("BELLOWS_LAUNCHER_GRACE_SECONDS", settings.grace_seconds, true);
  settings.notice = std::getenv("BELLOWS_NOTICE") != nullptr;
  settings.node_of_slurm = std::getenv("BELLOWS_NODE_OF_SLURM") != nullptr;
  return settings;
}

void AgentSettings::check_place() const {
  const char* here = std::getenv("SLURMD_NODENAME");
  if (node_of_slurm && here != nullptr && here != node) {
    throw std::runtime_error("Slurm has started this agent on " + std::string(here));
  }
}

void AgentSettings::add_to(std::vector<std::string>& environment) const {
  std::string list;
  for (const std::string& address : addresses) {
    if (!list.empty()) list += ',';
    list += address;
  }
  set_variable(environment, "BELLOWS_NODE", node);
  set_variable(environment, "BELLOWS_COORDINATOR", list);
  set_variable(environment, "BELLOWS_SECRET", secret);
  set_variable(environment, "BELLOWS_JOB", job);
  set_variable(environment, "BELLOWS_CONNECT_SECONDS", std::to_string(connect_seconds));
  set_variable(environment, "BELLOWS_SILENCE_SECONDS", std::to_string(silence_seconds));
  set_variable(environment, "BELLOWS_RANK_SILENCE_SECONDS", std::to_string(rank_silence_seconds));
  set_variable(environment, "BELLOWS_LAUNCHER_GRACE_SECONDS", std::to_string(grace_seconds));
  if (notice) set_variable(environment, "BELLOWS_NOTICE", "1");
  if (node_of_slurm) set_variable(environment, "BELLOWS_NODE_OF_SLURM", "1");
}

void AgentSettings::remove_from(std::vector<std::string>& environment) {
  for (const char* name :
       {"BELLOWS_NODE=", "BELLOWS_COORDINATOR=", "BELLOWS_SECRET=", "BELLOWS_JOB=",
        "BELLOWS_CONNECT_SECONDS=", "BELLOWS_SILENCE_SECONDS=", "BELLOWS_RANK_SILENCE_SECONDS=",
        "BELLOWS_LAUNCHER_GRACE_SECONDS=", "BELLOWS_NOTICE=", "BELLOWS_NODE_OF_SLURM="}) {
    remove_variables(environment, name);
  }
}

}  // namespace bellows::elastic
