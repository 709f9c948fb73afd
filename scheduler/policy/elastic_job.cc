// SPDX-License-Identifier: Apache-2.0
#include "scheduler/policy/elastic_job.h"

#include <boost/json.hpp>
#include <charconv>
#include <cmath>

#include "protocol/size_hints_json.h"

namespace bellows::scheduler {
namespace json = boost::json;
using protocol::Message;
using protocol::ProtocolError;

namespace {

using protocol::kMostNodes;
constexpr std::size_t kMostSpeeds = 1000;
constexpr std::size_t kMostPlaces = 64;
constexpr std::size_t kLongestName = 256;
constexpr std::size_t kLongestEvent = 512;  // bytes; the rest of its text is cut off

double seconds_since_1970(Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

Time time_from(double seconds) {
  return Time(std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds)));
}

[[noreturn]] void wrong(const std::string& member) {
  throw ProtocolError("a report's \"" + member + "\" is absent or wrong");
}

std::int64_t number_in(const Message& message, const char* name, std::int64_t least,
                       std::int64_t most) {
  const std::int64_t number = message.number(name);
  if (number < least || number > most) wrong(name);
  return number;
}

double real_from(const json::value& value, const char* name) {
  boost::system::error_code failed;
  const double number = value.to_number<double>(failed);
  if (failed || !std::isfinite(number) || number < 0 || number > 1e15) wrong(name);
  return number;
}

double real_in(const Message& message, const char* name) {
  const json::value* value = message.head.if_contains(name);
  if (value == nullptr) wrong(name);
  return real_from(*value, name);
}

std::string short_text(const Message& message, const char* name) {
  std::string text = message.text(name);
  if (text.size() > kLongestName) wrong(name);
  return text;
}

std::vector<std::string> names_in(const Message& message, const char* name) {
  std::vector<std::string> names;
  for (const json::value& value : message.array(name)) {
    const json::string* text = value.if_string();
    if (text == nullptr || text->empty() || text->size() > kLongestName) wrong(name);
    names.emplace_back(*text);
  }
  if (names.size() > kMostNodes) wrong(name);
  return names;
}

std::set<std::string> some_of(const std::vector<std::string>& held, const Message& message,
                              const char* name) {
  const std::vector<std::string> names = names_in(message, name);
  const std::set<std::string> all(held.begin(), held.end());
  for (const std::string& one : names) {
    if (!all.contains(one)) wrong(name);
  }
  return {names.begin(), names.end()};
}

std::vector<ElasticPlace> places_in(const json::array& array) {
  if (array.size() > kMostPlaces) wrong("places");
  std::vector<ElasticPlace> places;
  for (const json::value& value : array) {
    const json::object* object = value.if_object();
    if (object == nullptr) wrong("places");
    Message one;
    one.head = *object;
    places.push_back({short_text(one, "partition"), short_text(one, "features"),
                      static_cast<int>(number_in(one, "most", 0, kMostNodes))});
  }
  return places;
}

json::object to_json(const LiveView& live) {
  json::object object{{"state", live.state}, {"epoch", live.epoch}};
  if (live.batch) object["batch"] = *live.batch;
  if (live.learning_rate) object["learning_rate"] = *live.learning_rate;
  if (live.efficiency) object["efficiency"] = *live.efficiency;
  if (!live.event_kind.empty()) {
    object["event"] = json::object{
        {"time", live.event_time}, {"kind", live.event_kind}, {"text", live.event_text}};
  }
  return object;
}

LiveView live_from(const json::object& object) {
  Message message;
  message.head = object;
  LiveView live;
  live.state = short_text(message, "state");
  live.epoch = number_in(message, "epoch", 0, INT64_MAX);
  if (object.contains("batch")) live.batch = number_in(message, "batch", 0, INT64_MAX);
  if (object.contains("learning_rate")) live.learning_rate = real_in(message, "learning_rate");
  if (object.contains("efficiency")) live.efficiency = real_in(message, "efficiency");
  if (object.contains("event")) {
    Message event;
    event.head = message.object("event");
    live.event_time = real_in(event, "time");
    live.event_kind = short_text(event, "kind");
    live.event_text = event.text("text").substr(0, kLongestEvent);
  }
  return live;
}

}  // namespace

Message report_of(const ElasticJob& job) {
  Message report("report");
  json::object& head = report.head;
  head["job"] = job.id;
  head["name"] = job.name;
  head["partition"] = job.partition;
  head["features"] = job.features;
  json::array places;
  for (const ElasticPlace& place : job.places) {
    places.push_back(json::object{
        {"partition", place.partition}, {"features", place.features}, {"most", place.most}});
  }
  head["places"] = std::move(places);
  head["manual"] = job.manual;
  head["min"] = job.bounds.least;
  head["max"] = job.bounds.most;
  head["step"] = job.bounds.step;
  head["held"] = json::value_from(job.held);
  head["fixed"] = json::value_from(job.fixed);
  head["going"] = json::value_from(job.going);
  head["coming"] = job.coming;
  json::array speeds;
  for (const auto& [nodes, speed] : job.speeds) {
    speeds.push_back(json::object{{"nodes", nodes},
                                  {"samples_per_second", speed.samples_per_second},
                                  {"measured", seconds_since_1970(speed.measured)}});
  }
  head["speeds"] = std::move(speeds);
  if (job.since) head["since"] = seconds_since_1970(*job.since);
  if (job.work_left) head["work_left"] = *job.work_left;
  head["samples_per_second"] = job.samples_per_second;
  head["ranks"] = job.ranks;
  head["training_step"] = job.step;
  if (job.live) head["live"] = to_json(*job.live);
  if (job.hints) head["hints"] = protocol::to_json(*job.hints);
  return report;
}

ElasticJob job_of(const Message& report) {
  if (report.type() != "report") wrong("type");
  ElasticJob job;
  job.id = static_cast<JobId>(number_in(report, "job", 1, UINT32_MAX));
  job.name = short_text(report, "name");
  job.partition = short_text(report, "partition");
  job.features = short_text(report, "features");
  job.places = places_in(report.array("places"));
  job.manual = report.flag("manual");
  job.bounds.least = static_cast<int>(number_in(report, "min", 1, kMostNodes));
  job.bounds.most = static_cast<int>(number_in(report, "max", job.bounds.least, kMostNodes));
  job.bounds.step = static_cast<int>(number_in(report, "step", 1, kMostNodes));
  job.held = names_in(report, "held");
  job.fixed = some_of(job.held, report, "fixed");
  job.going = some_of(job.held, report, "going");
  job.coming = static_cast<int>(number_in(report, "coming", 0, kMostNodes));
  const json::array& speeds = report.array("speeds");
  if (speeds.size() > kMostSpeeds) wrong("speeds");
  for (const json::value& value : speeds) {
    const json::object* one = value.if_object();
    if (one == nullptr) wrong("speeds");
    const json::value* nodes = one->if_contains("nodes");
    const json::value* speed = one->if_contains("samples_per_second");
    const json::value* measured = one->if_contains("measured");
    if (nodes == nullptr || speed == nullptr || measured == nullptr) wrong("speeds");
    const double count = real_from(*nodes, "speeds");
    if (count < 1 || count > static_cast<double>(kMostNodes)) wrong("speeds");
    job.speeds[static_cast<int>(count)] = {
        real_from(*speed, "speeds"), time_from(std::min(real_from(*measured, "speeds"), 9e9))};
  }
  if (report.head.contains("since")) job.since = time_from(std::min(real_in(report, "since"), 9e9));
  if (report.head.contains("work_left")) job.work_left = real_in(report, "work_left");
  job.samples_per_second = real_in(report, "samples_per_second");
  job.ranks = static_cast<int>(number_in(report, "ranks", 0, INT32_MAX));
  job.step = number_in(report, "training_step", 0, INT64_MAX);
  if (report.head.contains("live")) job.live = live_from(report.object("live"));
  job.hints = protocol::size_hints_in(report.head);
  return job;
}

}  // namespace bellows::scheduler
