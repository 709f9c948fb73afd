// SPDX-License-Identifier: Apache-2.0
// The command line of bellows-run.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mpi_elastic/common/binding.h"
#include "protocol/metrics_server.h"

namespace bellows::elastic {

enum class OnFailure {
  stop,   // the failure of one rank ends the others
  go_on,  // the others are told (PMIx event, ULFM) and go on
};

struct RunOptions {
  std::optional<int> ranks;
  std::optional<int> ranks_per_node;
  std::optional<int> local_nodes;  // run here, as so many nodes, even inside an allocation
  std::vector<std::string> program;
  std::string directory;
  std::string bind = "auto";
  int gpus_per_rank = 0;
  bool tag_output = false;
  bool report_bindings = false;
  bool verbose = false;
  OnFailure on_failure = OnFailure::stop;
  std::optional<std::pair<int, int>> elastic;  // least and most ranks; without: a fixed world
  bool elastic_auto = false;   // as the Slurm job says (BELLOWS_ELASTIC), if it does
  bool elastic_named = false;  // ... and it must
  bool standalone = false;     // its broker asks no bellowsd
  double rank_silence_seconds = 5;
  double change_seconds = 20;
  double grace_seconds = 60;  // for which agents of an elastic job wait for another bellows-run
  std::optional<std::string> reattach;  // the name of a job whose bellows-run has died
  double start_seconds = 60;
  double silence_seconds = 10;
  double kill_wait_seconds = 5;
  std::pair<std::uint16_t, std::uint16_t> ports{0, 0};  // 0-0: any
  std::string events;                                   // file to which events are appended, or ""
  std::optional<protocol::MetricsAddress> metrics;      // where Prometheus asks
  std::string metrics_file;                             // ... or what it reads, or ""
  std::string agent;                                    // path of bellows-agent
  std::string broker;                                   // of bellows-broker
};

/// Wrong use; `what()` names the option and the allowed values.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Prints help or version and exits with 0 where asked for. Throws UsageError.
RunOptions parse_run_options(int argc, char** argv);

}  // namespace bellows::elastic
