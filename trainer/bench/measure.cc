// SPDX-License-Identifier: Apache-2.0
#include "trainer/bench/measure.h"

#include <boost/json.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

namespace bellows::bench {
namespace json = boost::json;
using Clock = Job::Clock;

namespace {

constexpr auto kLook = std::chrono::milliseconds(20);
// Of a program's progress, which comes once in a second or so: fewer looks say little.
constexpr int kFewestLooks = 5;

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

[[noreturn]] void too_late(int ranks, const std::string& why) {
  throw BenchError("--limit is over, and the size of " + std::to_string(ranks) +
                   " ranks is not measured: " + why);
}

}  // namespace

TrainerMeasure::TrainerMeasure(const Options& options, std::string file)
    : options_(options), file_(std::move(file)) {}

/// Steps of so many ranks among the lines that have come since the last call.
int TrainerMeasure::count(int ranks) {
  if (!in_.is_open()) in_.open(file_);
  int steps = 0;
  std::string line;
  while (std::getline(in_, line)) {
    if (in_.eof()) {  // no line feed yet
      rest_ += line;
      break;
    }
    boost::system::error_code failed;
    const json::value value = json::parse(rest_ + line, failed);
    rest_.clear();
    if (failed || !value.is_object()) continue;
    const json::value* event = value.get_object().if_contains("event");
    const json::value* size = value.get_object().if_contains("ranks");
    if (event != nullptr && *event == "step" && size != nullptr && *size == ranks) ++steps;
  }
  in_.clear();
  return steps;
}

/// Ranks that load for the next size disturb the steps of this one. A line is one write at the end
/// of the file, of the training, too.
void TrainerMeasure::mark(const char* event) {
  std::ofstream(file_, std::ios::app)
      << json::object{{"event", event}, {"time", unix_time()}} << std::endl;
}

void TrainerMeasure::size(Job& job, int ranks, Clock::time_point deadline) {
  if (in_.is_open()) {
    mark("measured");
    count(ranks);  // those before
  }
  for (int steps = 0; steps < options_.warm_up + options_.steps;
       std::this_thread::sleep_for(kLook)) {
    job.check_running();
    steps += count(ranks);
    if (Clock::now() > deadline)
      too_late(ranks, std::to_string(steps) + " steps were made of " +
                          std::to_string(options_.warm_up + options_.steps));
  }
  mark("unmeasured");
}

ProgressMeasure::ProgressMeasure(const Options& options, const std::string& file)
    : options_(options), out_(file) {
  if (!out_) throw BenchError(file + ": cannot be written");
}

void ProgressMeasure::begin_size(int ranks, std::int64_t step) {
  json::object line{{"time", unix_time()}, {"ranks", ranks}, {"step", step}};
  if (ranks_ == 0) {
    line["event"] = "start";
    line["step"] = 0;
    line["version"] = 1;
    line["program"] = std::filesystem::path(options_.command[0]).filename().string();
    line["scaling"] = options_.weak ? "weak" : "strong";
  } else {
    line["event"] = "world";
    line["cause"] = ranks > ranks_ ? "join" : "leave";
    line["joined"] = std::max(0, ranks - ranks_);
    line["left"] = std::max(0, ranks_ - ranks);
  }
  ranks_ = ranks;
  out_ << line << std::endl;
}

void ProgressMeasure::size(Job& job, int ranks, Clock::time_point deadline) {
  std::int64_t first = -1, last = -1;
  Clock::time_point last_seen;
  int looks = 0;
  while (last - first < options_.warm_up + options_.steps || looks < kFewestLooks) {
    std::this_thread::sleep_for(kLook);
    const auto status = job.status();
    const auto now = Clock::now();
    if (now > deadline)
      too_late(ranks, first < 0 ? "the program tells no steps (ElasticWorld::report)"
                                : std::to_string(last - first) + " steps were made");
    if (!status || status->text("state") != "steady") continue;
    const std::int64_t step = status->number("step");
    if (step <= 0 || step == last) continue;
    if (first < 0) {
      begin_size(ranks, step);
      first = step;
    } else {
      const double seconds = std::chrono::duration<double>(now - last_seen).count();
      const double each = seconds / static_cast<double>(step - last);
      json::object line{{"event", "step"},      {"time", unix_time()}, {"step", step},
                        {"steps", step - last}, {"ranks", ranks},      {"step_seconds", each}};
      const json::value* speed = status->head.if_contains("samples_per_second");
      const double samples =
          speed != nullptr && speed->is_number() ? speed->to_number<double>() * each : 0;
      if (samples > 0) line["batch"] = samples;
      out_ << line << std::endl;
      ++looks;
    }
    last = step;
    last_seen = now;
  }
}

std::unique_ptr<Measure> make_measure(const Options& options, const std::string& file) {
  if (options.is_trainer()) return std::make_unique<TrainerMeasure>(options, file);
  return std::make_unique<ProgressMeasure>(options, file);
}

}  // namespace bellows::bench
