// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/run_metrics.h"

#include <array>
#include <boost/json.hpp>
#include <ctime>

#include "config.h"
#include "protocol/metrics_text.h"
#include "protocol/size_hints_json.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::MetricsText;
using Type = MetricsText::Type;

namespace {

constexpr std::array kStates = {"starting", "steady", "changing", "ending", "reattaching"};
constexpr std::array kChanges = {"start", "join", "leave", "repair"};
constexpr std::array kIncidents = {"failed", "lost", "notice", "reattach"};
constexpr std::array kAllocation = {"asked", "granted", "refused", "returned", "taken"};

void add_world(MetricsText& text, const MetricsText::Labels& job, const protocol::Message& status) {
  double joining = 0, leaving = 0;
  for (const json::value& rank : status.array("ranks")) {
    const std::string state = json::value_to<std::string>(rank.at("state"));
    joining += state == "joining" ? 1 : 0;
    leaving += state == "leaving" ? 1 : 0;
  }
  const auto ranks = static_cast<double>(status.array("ranks").size());
  text.family("bellows_ranks", Type::gauge, "Ranks in the world or on their way out of it.")
      .add(job, ranks - joining);
  text.family("bellows_ranks_joining", Type::gauge, "Ranks that load and warm up.")
      .add(job, joining);
  text.family("bellows_ranks_leaving", Type::gauge, "Ranks that are asked to leave.")
      .add(job, leaving);
  text.family("bellows_ranks_min", Type::gauge, "Fewest ranks with which the job goes on.")
      .add(job, status.head.at("min").to_number<double>());
  text.family("bellows_ranks_max", Type::gauge, "Most ranks that the job may have.")
      .add(job, status.head.at("max").to_number<double>());
  text.family("bellows_nodes", Type::gauge, "Nodes with ranks.")
      .add(job, static_cast<double>(status.array("nodes").size()));
  text.family("bellows_world_epoch", Type::gauge, "Epoch of the newest world.")
      .add(job, status.head.at("epoch").to_number<double>());
  auto& states = text.family("bellows_job_state", Type::gauge, "1 for the state the job is in.");
  for (const char* state : kStates) {
    MetricsText::Labels labels = job;
    labels.emplace_back("state", state);
    states.add(labels, status.text("state") == state ? 1 : 0);
  }
}

void add_progress(MetricsText& text, const MetricsText::Labels& job,
                  const protocol::Message& status) {
  text.family("bellows_step_total", Type::counter, "Steps of the training, as rank 0 reports them.")
      .add(job, status.head.at("step").to_number<double>());
  struct Optional {
    const char* member;
    const char* metric;
    const char* help;
  };
  static constexpr std::array kOptional = {
      Optional{"samples_per_second", "bellows_samples_per_second", "Speed in the present world."},
      Optional{"samples_left", "bellows_samples_left", "Samples to the end of the run."},
      Optional{"batch", "bellows_batch_samples", "Samples of the last step, over all ranks."},
      Optional{"learning_rate", "bellows_learning_rate", "Learning rate of the last step."},
      Optional{"efficiency", "bellows_efficiency_ratio",
               "Speed per rank over the best one that this bellows-run has seen."},
  };
  for (const Optional& optional : kOptional) {
    const json::value* value = status.head.if_contains(optional.member);
    if (value == nullptr) continue;
    text.family(optional.metric, Type::gauge, optional.help).add(job, value->to_number<double>());
  }
}

// By the program's own model, where it has one.
void add_hints(MetricsText& text, const MetricsText::Labels& job, const protocol::Message& status) {
  const std::optional<SizeHints> hints = protocol::size_hints_in(status.head);
  if (!hints) return;
  const auto add = [&](const char* name, const char* help, const char* label,
                       const std::vector<std::pair<const char*, std::optional<double>>>& values) {
    auto& family = text.family(name, Type::gauge, help);
    for (const auto& [value, number] : values) {
      MetricsText::Labels labels = job;
      labels.emplace_back(label, value);
      if (number) family.add(labels, *number);
    }
  };
  add("bellows_best_nodes", "Nodes with which the program would do best, by its own model.", "by",
      {{"goodput", hints->best_nodes}, {"cost", hints->economic_nodes}});
  add("bellows_best_ranks", "Ranks of these.", "by",
      {{"goodput", hints->best_ranks}, {"cost", hints->economic_ranks}});
  text.family("bellows_goodput_samples_per_second", Type::gauge,
              "Speed by the program's model, each sample counted for what it is worth.")
      .add(job, hints->goodput);
  add("bellows_goodput_change_ratio", "What a node more or less would change of it, predicted.",
      "nodes",
      {{"+1", hints->gain_of_more},
       {"-1", hints->loss_of_less ? std::optional(-*hints->loss_of_less) : std::nullopt}});
}

template <class Kinds>
void add_counts(MetricsText& text, const MetricsText::Labels& job, const EventCounts& counts,
                const Kinds& kinds, const std::string& metric, const char* help,
                double (*value)(const EventCounts::Count&)) {
  auto& family = text.family(metric, Type::counter, help);
  for (const char* kind : kinds) {
    MetricsText::Labels labels = job;
    labels.emplace_back("kind", kind);
    family.add(labels, value(counts.of(kind)));
  }
}

double events(const EventCounts::Count& count) { return static_cast<double>(count.events); }
double nodes(const EventCounts::Count& count) { return static_cast<double>(count.nodes); }
double seconds(const EventCounts::Count& count) { return count.seconds; }

}  // namespace

void EventCounts::add(const protocol::JobEvent& event) {
  Count& count = counts_[event.kind];
  ++count.events;
  count.nodes += static_cast<std::int64_t>(event.nodes.size());
  count.seconds += event.seconds;
}

EventCounts::Count EventCounts::of(const std::string& kind) const {
  const auto found = counts_.find(kind);
  return found == counts_.end() ? Count{} : found->second;
}

std::string run_metrics(const protocol::Message& status, const EventCounts& counts) {
  const MetricsText::Labels job = {{"job_id", status.text("job")}};
  MetricsText text;
  text.family("bellows_build_info", Type::gauge, "1, with the version of the program.")
      .add({{"job_id", status.text("job")},
            {"program", "bellows-run"},
            {"version", BELLOWS_VERSION}},
           1);
  text.family("bellows_updated_timestamp_seconds", Type::gauge,
              "When these values were put together, Unix time.")
      .add(job, static_cast<double>(std::time(nullptr)));
  add_world(text, job, status);
  add_progress(text, job, status);
  add_hints(text, job, status);
  add_counts(text, job, counts, kChanges, "bellows_world_changes_total",
             "Worlds that came to stand.", events);
  add_counts(text, job, counts, kChanges, "bellows_world_change_seconds_total",
             "Seconds from a change's cause until its world stood.", seconds);
  add_counts(text, job, counts, kIncidents, "bellows_incidents_total",
             "Joins that failed, nodes lost, notices of Slurm, launchers that took over.", events);
  add_counts(text, job, counts, kAllocation, "bellows_allocation_changes_total",
             "Requests for nodes, and what came of them, as bellows-broker tells them.", events);
  add_counts(text, job, counts, kAllocation, "bellows_allocation_nodes_total",
             "Nodes that these were about.", nodes);
  add_counts(text, job, counts, kAllocation, "bellows_allocation_change_seconds_total",
             "Seconds that these took.", seconds);
  return text.str();
}

}  // namespace bellows::elastic
