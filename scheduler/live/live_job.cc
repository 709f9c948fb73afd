// SPDX-License-Identifier: Apache-2.0
#include "scheduler/live/live_job.h"

#include <cmath>

namespace bellows::scheduler {
namespace json = boost::json;

namespace {

std::optional<double> real(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const auto number = value->to_number<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::optional<std::int64_t> whole(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_int64()) return std::nullopt;
  return value->get_int64();
}

std::string text(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

std::optional<std::int64_t> size(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_array()) return std::nullopt;
  return static_cast<std::int64_t>(value->get_array().size());
}

void take_event(LiveJob& job, const json::value* event) {
  if (event == nullptr || !event->is_object()) return;
  job.event_time = real(event->get_object(), "time");
  job.event_kind = text(event->get_object(), "kind");
  job.event_text = text(event->get_object(), "text");
}

void take_common(LiveJob& job, const json::object& object) {
  job.least = whole(object, "min");
  job.most = whole(object, "max");
  job.samples_per_second = real(object, "samples_per_second");
  const json::value* hints = object.if_contains("hints");
  if (hints == nullptr || !hints->is_object()) return;
  job.best_nodes = whole(hints->get_object(), "best_nodes");
  job.economic_nodes = whole(hints->get_object(), "economic_nodes");
}

// Those that the training reports beside its speed.
void take_training(LiveJob& job, const json::object& object) {
  job.state = text(object, "state");
  job.epoch = whole(object, "epoch");
  job.batch = whole(object, "batch");
  job.learning_rate = real(object, "learning_rate");
  job.efficiency = real(object, "efficiency");
}

}  // namespace

LiveJob live_job_from_status(const json::object& status) {
  LiveJob job;
  job.source = "bellows-run";
  job.job = text(status, "job");
  take_common(job, status);
  take_training(job, status);
  job.nodes = size(status, "nodes");
  job.ranks = size(status, "ranks");
  job.step = whole(status, "step");
  const json::value* events = status.if_contains("events");
  if (events != nullptr && events->is_array() && !events->get_array().empty()) {
    take_event(job, &events->get_array().back());
  }
  return job;
}

LiveJob live_job_from_daemon(const json::object& entry) {
  LiveJob job;
  job.source = "bellowsd";
  if (const json::value* id = entry.if_contains("job"); id != nullptr && id->is_number()) {
    job.job = json::serialize(*id);
  }
  take_common(job, entry);
  job.nodes = size(entry, "held");
  job.ranks = whole(entry, "ranks");
  job.step = whole(entry, "training_step");
  if (const json::value* live = entry.if_contains("live"); live != nullptr && live->is_object()) {
    take_training(job, live->get_object());
    take_event(job, live->get_object().if_contains("event"));
  }
  return job;
}

json::object to_json(const LiveJob& job) {
  json::object object{{"job", job.job}, {"source", job.source}, {"state", job.state}};
  const auto add = [&](const char* name, const auto& value) {
    if (value) object[name] = *value;
  };
  add("nodes", job.nodes);
  add("ranks", job.ranks);
  add("min", job.least);
  add("max", job.most);
  add("epoch", job.epoch);
  add("step", job.step);
  add("samples_per_second", job.samples_per_second);
  add("efficiency", job.efficiency);
  add("batch", job.batch);
  add("learning_rate", job.learning_rate);
  add("best_nodes", job.best_nodes);
  add("economic_nodes", job.economic_nodes);
  if (!job.event_kind.empty()) {
    object["event"] = {
        {"time", job.event_time.value_or(0)}, {"kind", job.event_kind}, {"text", job.event_text}};
  }
  if (!job.problem.empty()) object["problem"] = job.problem;
  return object;
}

}  // namespace bellows::scheduler
