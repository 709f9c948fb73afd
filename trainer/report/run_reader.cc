// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/run_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace bellows::report {
namespace json = boost::json;

namespace {

constexpr std::int64_t kVersion = 1;  // of metrics, that is understood here

double number(const json::object& line, const char* name, double otherwise = kUnknown) {
  const json::value* value = line.if_contains(name);
  return value != nullptr && value->is_number() ? value->to_number<double>() : otherwise;
}

std::int64_t whole(const json::object& line, const char* name, std::int64_t otherwise = 0) {
  const double value = number(line, name);
  return std::isfinite(value) && std::abs(value) < 9e15 ? static_cast<std::int64_t>(value)
                                                        : otherwise;
}

std::string text(const json::object& line, const char* name) {
  const json::value* value = line.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

/// Of the numbers in a list: the largest, and the mean.
std::pair<double, double> most_and_mean(const json::object& line, const char* name) {
  const json::value* list = line.if_contains(name);
  double most = kUnknown, sum = 0, count = 0;
  if (list == nullptr || !list->is_array()) return {kUnknown, kUnknown};
  for (const json::value& item : list->get_array()) {
    if (!item.is_number()) continue;
    const auto value = item.to_number<double>();
    most = count == 0 ? value : std::max(most, value);
    sum += value;
    ++count;
  }
  return {most, sum / count};  // unknown when there is none
}

class Reader {
 public:
  explicit Reader(Run& run) : run_(run) {}

  void read(const std::string& file) {
    std::error_code failed;
    if (!std::filesystem::is_regular_file(file, failed))
      throw UnreadableRun(file + ": " + (failed ? failed.message() : "is not a file"));
    std::ifstream in(file);
    if (!in) throw UnreadableRun(file + ": " + std::strerror(errno));
    std::string line;
    std::int64_t count = 0;
    std::vector<std::int64_t> damaged;
    bool torn = false;
    while (std::getline(in, line)) {
      ++count;
      if (take(file, line)) continue;
      torn = in.eof();
      damaged.push_back(count);
    }
    if (in.bad()) throw UnreadableRun(file + ": " + std::strerror(errno));
    if (damaged.empty()) return;
    run_.notes.push_back(
        damaged.size() == 1
            ? fmt::format("{}: line {} {}, and left out", file, damaged[0],
                          torn ? "is not whole" : "is damaged")
            : fmt::format("{}: {} of {} lines are damaged, the first is line {}, and left out",
                          file, damaged.size(), count, damaged[0]));
  }

  void finish(const std::string& path) {
    if (run_.steps.empty() && run_.worlds.empty() && run_.events.empty())
      throw UnreadableRun(path +
                          ": has no line of a run; give a file of bellows-train --metrics or "
                          "bellows-run --events, or a folder of such files (*.jsonl)");
    if (earlier_ > 0)
      run_.notes.push_back(
          fmt::format("{}: holds {} training{} more, which began earlier, and {} "
                      "left out",
                      path, earlier_, earlier_ == 1 ? "" : "s", earlier_ == 1 ? "is" : "are"));
    std::ranges::stable_sort(run_.events, {}, &protocol::JobEvent::time);
    if (!run_.events.empty() && !std::isfinite(run_.began)) run_.began = run_.events.front().time;
    for (const protocol::JobEvent& event : run_.events)
      run_.seconds = std::max(run_.seconds, event.time - run_.began);
    if (run_.worlds.empty() && run_.steps.empty()) take_worlds_from_events();
    mark_redone();
    if (run_.program.empty()) run_.program = "unknown";
  }

 private:
  bool take(const std::string& file, const std::string& text_line) {
    if (text_line.empty()) return true;
    boost::system::error_code failed;
    const json::value value = json::parse(text_line, failed);
    if (failed || !value.is_object()) return false;
    const json::object& line = value.get_object();
    if (line.contains("kind")) {
      try {
        run_.events.push_back(protocol::job_event_from_json(line));
        return true;
      } catch (const std::exception&) {
        return false;
      }
    }
    const std::string event = text(line, "event");
    if (event.empty()) return false;
    take_metric(file, event, line);
    return true;
  }

  double time_of(const json::object& line) {
    const double unix_time = number(line, "time"), seconds = number(line, "seconds", 0);
    if (!std::isfinite(unix_time)) return seconds;
    if (!std::isfinite(run_.began)) run_.began = unix_time;
    return unix_time - run_.began;
  }

  void take_metric(const std::string& file, const std::string& event, const json::object& line) {
    if (event == "start") begin(file, line);
    const double time = time_of(line);
    run_.seconds = std::max(run_.seconds, time);
    const std::int64_t step = whole(line, "step");
    const int ranks = static_cast<int>(std::clamp<std::int64_t>(whole(line, "ranks"), 0, 1 << 24));
    if (event == "start") unmeasured_ = false;
    if (event == "start") {
      const char* cause = step > 0 ? "resume" : "start";
      run_.worlds.push_back({time, step, ranks, cause, 0, 0, 0, 0});
    } else if (event == "world") {
      run_.worlds.push_back({time, step, ranks, text(line, "cause"),
                             static_cast<int>(whole(line, "joined")),
                             static_cast<int>(whole(line, "left")),
                             number(line, "standstill_seconds", 0), number(line, "bytes", 0)});
    } else if (event == "unmeasured" || event == "measured") {
      unmeasured_ = event == "unmeasured";
    } else if (event == "step") {
      take_step(time, step, ranks, line);
    } else if (event == "evaluation") {
      run_.evaluations.push_back({time, step, number(line, "loss"), number(line, "accuracy"),
                                  number(line, "evaluation_seconds", 0)});
    } else if (event == "checkpoint") {
      run_.checkpoints.push_back({time, step, number(line, "checkpoint_seconds", 0)});
    } else if (event == "warning") {
      run_.notes.push_back("the run has warned: " + text(line, "text"));
    }  // what a later version may have added says nothing here
  }

  void take_step(double time, std::int64_t step, int ranks, const json::object& line) {
    StepRecord record;
    record.time = time;
    record.step = step;
    record.steps = std::max<std::int64_t>(1, whole(line, "steps", 1));
    record.ranks = ranks;
    record.unmeasured = unmeasured_;
    record.nodes = static_cast<int>(std::clamp<std::int64_t>(whole(line, "nodes", 1), 1, ranks));
    record.accumulation = std::clamp<std::int64_t>(whole(line, "accumulation"), 0, 1 << 20);
    record.samples = number(line, "sample");
    record.loss = number(line, "loss");
    record.accuracy = number(line, "accuracy");
    record.learning_rate = number(line, "lr");
    record.batch = number(line, "batch");
    record.mean_batch = number(line, "mean_batch");
    record.gradient_norm = number(line, "gradient_norm");
    record.noise_scale = number(line, "noise_scale");
    record.samples_per_second = number(line, "samples_per_second");
    record.step_seconds = number(line, "step_seconds");
    record.peak_memory = most_and_mean(line, "peak_memory_bytes").first;
    record.gpu_memory = most_and_mean(line, "gpu_memory_bytes").first;
    record.gpu_utilisation = most_and_mean(line, "gpu_utilisation").second;
    if (const json::value* parts = line.if_contains("parts"); parts && parts->is_object()) {
      for (const auto& [name, seconds] : parts->get_object())
        if (seconds.is_number()) record.parts.emplace_back(name, seconds.to_number<double>());
    }
    run_.steps.push_back(std::move(record));
  }

  /// A line "start" of a training that goes on from a checkpoint goes on here, too.
  void begin(const std::string& file, const json::object& line) {
    const std::int64_t version = whole(line, "version", kVersion);
    if (version > kVersion)
      throw UnreadableRun(
          fmt::format("{}: its lines are of version {}, and this bellows-report "
                      "reads up to {}: use a newer one",
                      file, version, kVersion));
    if (whole(line, "step") == 0 && !run_.steps.empty()) {
      ++earlier_;
      Run next{.name = run_.name, .program = {}};
      next.events = std::move(run_.events);
      next.notes = std::move(run_.notes);
      run_ = std::move(next);
    }
    run_.program = text(line, "program");
    if (run_.program.empty()) run_.program = "bellows-train";
    run_.scaling = text(line, "scaling");
    run_.options.clear();
    const json::value* options = line.if_contains("options");
    if (options == nullptr || !options->is_object()) return;
    for (const auto& [name, value] : options->get_object())
      run_.options[name] =
          value.is_string() ? std::string(value.get_string()) : json::serialize(value);
  }

  /// Without metrics. How long the training stood still is not known by bellows-run.
  void take_worlds_from_events() {
    std::int64_t before = 0;
    for (const protocol::JobEvent& event : run_.events) {
      const std::string& kind = event.kind;
      const bool world = kind == "start" || kind == "join" || kind == "leave" || kind == "repair";
      if (!world && event.ranks == before) continue;
      const auto change = static_cast<int>(run_.worlds.empty() ? 0 : event.ranks - before);
      // Where the first events are missing, the others still tell of the ranks.
      const std::string cause = world ? kind : run_.worlds.empty() ? "start" : "";
      run_.worlds.push_back({event.time - run_.began, 0, static_cast<int>(event.ranks), cause,
                             std::max(0, change), std::max(0, -change), kUnknown, kUnknown});
      before = event.ranks;
    }
  }

  void mark_redone() {
    std::int64_t reached = INT64_MAX;  // by those that come later
    for (auto record = run_.steps.rbegin(); record != run_.steps.rend(); ++record) {
      record->redone = record->step >= reached;
      reached = std::min(reached, record->step);
    }
  }

  Run& run_;
  int earlier_ = 0;
  bool unmeasured_ = false;  // what comes now
};

}  // namespace

Run read_run(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<std::string> files{path};
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    files.clear();
    for (const auto& entry : fs::directory_iterator(path, failed))
      if (entry.path().extension() == ".jsonl") files.push_back(entry.path().string());
    if (failed) throw UnreadableRun(path + ": " + failed.message());
    if (files.empty())
      throw UnreadableRun(path +
                          ": has no file *.jsonl of bellows-train --metrics or bellows-run "
                          "--events");
    std::ranges::sort(files);
  }
  Run run{.name = path, .program = {}};
  while (run.name.size() > 1 && run.name.ends_with('/')) run.name.pop_back();
  Reader reader(run);
  for (const std::string& file : files) reader.read(file);
  reader.finish(path);
  return run;
}

}  // namespace bellows::report
