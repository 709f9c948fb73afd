// SPDX-License-Identifier: Apache-2.0
// bellowsd as Prometheus sees it: docs/metrics.md lists the metrics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/cluster/cluster.h"
#include "scheduler/policy/elastic_job.h"

namespace bellows::scheduler {

/// Since the daemon began.
struct DaemonCounts {
  std::int64_t reports = 0, connections = 0, dropped = 0;
  std::int64_t looks = 0, failed_looks = 0;
  std::int64_t grow = 0, give_back = 0;              // decisions, of a dry run as well
  std::int64_t grow_nodes = 0, give_back_nodes = 0;  // ... and nodes in them
  std::int64_t orders = 0, orders_done = 0;
  std::int64_t requests = 0, granted = 0, refused = 0;  // of users
  double look_seconds = 0, decision_seconds = 0;
  double last_look = 0;  // Unix time
};

/// What it knows now.
struct DaemonView {
  std::string policy;
  bool dry_run = false;
  std::size_t sessions = 0;
  std::vector<ElasticJob> jobs;
  std::vector<NodeView> nodes;
  std::size_t pending = 0;  // jobs that wait for nodes only
};

/// In the text format.
std::string daemon_metrics(const DaemonView& view, const DaemonCounts& counts);

}  // namespace bellows::scheduler
