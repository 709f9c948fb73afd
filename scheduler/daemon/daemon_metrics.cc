// SPDX-License-Identifier: Apache-2.0
#include "scheduler/daemon/daemon_metrics.h"

#include <array>
#include <functional>

#include "config.h"
#include "protocol/metrics_text.h"

namespace bellows::scheduler {
using protocol::MetricsText;
using Type = MetricsText::Type;

namespace {

constexpr std::array kNodeStates = {NodeState::idle, NodeState::mixed, NodeState::allocated,
                                    NodeState::leaving, NodeState::down};

void add_counter(MetricsText& text, const char* name, const char* help, double value) {
  text.family(name, Type::counter, help).add({}, value);
}

void add_counter(MetricsText& text, const char* name, const char* help, const char* label,
                 std::initializer_list<std::pair<const char*, std::int64_t>> values) {
  auto& family = text.family(name, Type::counter, help);
  for (const auto& [kind, value] : values) {
    family.add({{label, kind}}, static_cast<double>(value));
  }
}

void add_cluster(MetricsText& text, const DaemonView& view) {
  auto& nodes = text.family("bellowsd_nodes", Type::gauge, "Nodes of the cluster.");
  for (const NodeState state : kNodeStates) {
    double count = 0;
    for (const NodeView& node : view.nodes) count += node.state == state ? 1 : 0;
    nodes.add({{"state", bellows::scheduler::text(state)}}, count);
  }
  text.family("bellowsd_pending_jobs", Type::gauge, "Jobs in the queue that wait for nodes only.")
      .add({}, static_cast<double>(view.pending));
  text.family("bellowsd_jobs", Type::gauge, "Elastic jobs whose reports count.")
      .add({}, static_cast<double>(view.jobs.size()));
  text.family("bellowsd_sessions", Type::gauge, "Connections: of brokers, and of users.")
      .add({}, static_cast<double>(view.sessions));
}

void add_jobs(MetricsText& text, const std::vector<ElasticJob>& jobs) {
  using Value = std::function<std::optional<double>(const ElasticJob&)>;
  const auto add = [&](const char* name, Type type, const char* help, const Value& value) {
    auto& family = text.family(name, type, help);
    for (const ElasticJob& job : jobs) {
      if (const auto number = value(job)) {
        family.add({{"job_id", std::to_string(job.id)}, {"partition", job.partition}}, *number);
      }
    }
  };
  add("bellowsd_job_nodes", Type::gauge, "Nodes that the job has.",
      [](const ElasticJob& job) { return static_cast<double>(job.held.size()); });
  add("bellowsd_job_nodes_min", Type::gauge, "Fewest nodes that it may have.",
      [](const ElasticJob& job) { return job.bounds.least; });
  add("bellowsd_job_nodes_max", Type::gauge, "Most nodes that it may have.",
      [](const ElasticJob& job) { return job.bounds.most; });
  add("bellowsd_job_ranks", Type::gauge, "Its ranks.",
      [](const ElasticJob& job) { return job.ranks; });
  add("bellowsd_job_step_total", Type::counter, "Steps of its training.",
      [](const ElasticJob& job) { return static_cast<double>(job.step); });
  add("bellowsd_job_samples_per_second", Type::gauge, "Its speed.",
      [](const ElasticJob& job) { return job.samples_per_second; });
  add("bellowsd_job_samples_left", Type::gauge, "Samples to the end of its run.",
      [](const ElasticJob& job) { return job.work_left; });
  add("bellowsd_job_efficiency_ratio", Type::gauge, "Speed per rank over the best one seen.",
      [](const ElasticJob& job) { return job.live ? job.live->efficiency : std::nullopt; });
  using Number = std::optional<double>;
  add("bellowsd_job_best_nodes", Type::gauge, "Nodes with which it does best, by its own word.",
      [](const ElasticJob& job) { return job.hints ? Number(job.hints->best_nodes) : Number(); });
  add("bellowsd_job_economic_nodes", Type::gauge, "Nodes that pay, by its own word.",
      [](const ElasticJob& job) {
        return job.hints ? Number(job.hints->economic_nodes) : Number();
      });
  add("bellowsd_job_goodput_samples_per_second", Type::gauge, "Its speed, as it predicts it.",
      [](const ElasticJob& job) { return job.hints ? Number(job.hints->goodput) : Number(); });
}

}  // namespace

std::string daemon_metrics(const DaemonView& view, const DaemonCounts& counts) {
  MetricsText text;
  text.family("bellows_build_info", Type::gauge, "1, with the version of the program.")
      .add({{"program", "bellowsd"}, {"version", BELLOWS_VERSION}}, 1);
  text.family("bellowsd_policy_info", Type::gauge, "1, with the policy.")
      .add({{"policy", view.policy}, {"dry_run", view.dry_run ? "true" : "false"}}, 1);
  add_cluster(text, view);
  add_jobs(text, view.jobs);
  add_counter(text, "bellowsd_connections_total", "Connections that were taken.",
              static_cast<double>(counts.connections));
  add_counter(text, "bellowsd_connections_dropped_total",
              "Connections that ended, whoever has ended them.",
              static_cast<double>(counts.dropped));
  add_counter(text, "bellowsd_reports_total", "Reports of brokers.",
              static_cast<double>(counts.reports));
  add_counter(text, "bellowsd_looks_total", "Looks at the cluster.", "outcome",
              {{"seen", counts.looks}, {"failed", counts.failed_looks}});
  add_counter(text, "bellowsd_look_seconds_total", "Seconds that Slurm took to answer.",
              counts.look_seconds);
  text.family("bellowsd_last_look_timestamp_seconds", Type::gauge,
              "When the cluster was seen last, Unix time.")
      .add({}, counts.last_look);
  add_counter(text, "bellowsd_decision_seconds_total", "Seconds that deciding took.",
              counts.decision_seconds);
  add_counter(text, "bellowsd_decisions_total",
              "Decisions that a job should grow, or give nodes back; of a dry run as well.", "kind",
              {{"grow", counts.grow}, {"give_back", counts.give_back}});
  add_counter(text, "bellowsd_decision_nodes_total", "Nodes in these decisions.", "kind",
              {{"grow", counts.grow_nodes}, {"give_back", counts.give_back_nodes}});
  add_counter(text, "bellowsd_orders_total", "Orders that were sent to brokers.",
              static_cast<double>(counts.orders));
  add_counter(text, "bellowsd_orders_taken_total", "Orders that brokers have taken up.",
              static_cast<double>(counts.orders_done));
  add_counter(text, "bellowsd_requests_total", "Requests of users that were handed on.",
              static_cast<double>(counts.requests));
  add_counter(text, "bellowsd_answers_total", "Answers of brokers to these.", "outcome",
              {{"granted", counts.granted}, {"refused", counts.refused}});
  return text.str();
}

}  // namespace bellows::scheduler
