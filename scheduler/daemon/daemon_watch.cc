// SPDX-License-Identifier: Apache-2.0
// What others can see of bellowsd: metrics for Prometheus, the file of events.
#include <spdlog/spdlog.h>

#include <boost/json.hpp>
#include <ctime>

#include "config.h"
#include "scheduler/daemon/daemon.h"

namespace bellows::scheduler {
namespace json = boost::json;

void Daemon::open_metrics() {
  if (settings_.metrics) {
    spdlog::info("metrics at {}", metrics_.listen(*settings_.metrics, "metrics"));
  }
  keep_metrics();
}

void Daemon::keep_metrics() {
  try {
    metrics_.keep(settings_.metrics_file, "metrics-file");
  } catch (const std::runtime_error& failed) {
    spdlog::warn("{}", failed.what());
  }
}

std::string Daemon::metrics_text() const {
  DaemonView view;
  view.policy = settings_.policy;
  view.dry_run = settings_.dry_run;
  view.sessions = sessions_.size();
  for (const auto& [id, known] : jobs_) {
    if (known.verified) view.jobs.push_back(known.job);
  }
  view.nodes = nodes_;
  view.pending = pending_;
  return daemon_metrics(view, counts_);
}

void Daemon::open_events(const std::string& path) {
  try {
    event_file_.open(path, {{"version", BELLOWS_VERSION},
                            {"policy", settings_.policy},
                            {"dry_run", settings_.dry_run}});
  } catch (const std::runtime_error& failed) {
    throw std::runtime_error(std::string("event-file: ") + failed.what());
  }
}

void Daemon::count_decision(JobId job, const Decision& decision) {
  ++(decision.grow > 0 ? counts_.grow : counts_.give_back);
  counts_.grow_nodes += decision.grow;
  counts_.give_back_nodes += static_cast<std::int64_t>(decision.give_back.size());
  event_file_.write("decision", {{"job", job},
                                 {"dry_run", settings_.dry_run},
                                 {"grow", decision.grow},
                                 {"give_back", json::value_from(decision.give_back)},
                                 {"why", decision.why}});
}

void Daemon::watch_look(const Look& seen, double decision_seconds) {
  ++counts_.looks;
  counts_.look_seconds += seen.seconds;
  counts_.decision_seconds += decision_seconds;
  counts_.last_look = static_cast<double>(std::time(nullptr));
  std::set<JobId> elastic;
  for (const auto& [id, known] : jobs_) {
    if (known.verified) elastic.insert(id);
  }
  event_file_.write_look(seen.jobs, seen.nodes, elastic);
}

void Daemon::end() {
  event_file_.write("end");
  metrics_.write();
}

}  // namespace bellows::scheduler
