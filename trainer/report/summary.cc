// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/summary.h"

#include <algorithm>
#include <ctime>
#include <functional>

#include "trainer/report/numbers.h"

namespace bellows::report {

namespace {

double rank_seconds(const Run& run) {
  double sum = 0;
  for (std::size_t i = 0; i < run.worlds.size(); ++i) {
    const double end = i + 1 < run.worlds.size() ? run.worlds[i + 1].time : run.seconds;
    sum += run.worlds[i].ranks * std::max(0.0, end - run.worlds[i].time);
  }
  return sum;
}

void add_world(const WorldRecord& world, Summary& summary) {
  summary.standstill += world.standstill_seconds;
  summary.joins += world.cause == "join";
  summary.leaves += world.cause == "leave";
  summary.repairs += world.cause == "repair";
  if (world.ranks == 0) return;
  summary.fewest_ranks =
      summary.fewest_ranks == 0 ? world.ranks : std::min(summary.fewest_ranks, world.ranks);
  summary.most_ranks = std::max(summary.most_ranks, world.ranks);
}

std::string date(double unix_time) {
  if (!std::isfinite(unix_time)) return "-";
  const auto seconds = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  char text[32];
  if (localtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts) == 0)
    return "-";
  return text;
}

std::string option(const Run& run, const char* name) {
  const auto found = run.options.find(name);
  return found != run.options.end() ? found->second : "-";
}

std::string with_share(double seconds, double whole) {
  return whole > 0 && std::isfinite(seconds)
             ? fmt::format("{} ({:.1f}%)", format_number(seconds), 100 * seconds / whole)
             : format_number(seconds);
}

void add_usage(const Run& run, Summary& summary) {
  double busy = 0, steps = 0;
  for (const StepRecord& record : run.steps) {
    summary.peak_memory = std::fmax(summary.peak_memory, record.peak_memory);
    summary.gpu_memory = std::fmax(summary.gpu_memory, record.gpu_memory);
    if (!std::isfinite(record.gpu_utilisation)) continue;
    busy += record.gpu_utilisation * static_cast<double>(record.steps);
    steps += static_cast<double>(record.steps);
  }
  if (steps > 0) summary.gpu_utilisation = busy / steps;
}

}  // namespace

Summary summary_of(const Run& run) {
  Summary summary;
  summary.seconds = run.seconds;
  if (run.steps.empty() && !run.events.empty())
    summary.training = summary.evaluations = summary.checkpoints = kUnknown;
  double trained = 0;
  bool counted = false;
  for (const StepRecord& record : run.steps) {
    const auto steps = static_cast<double>(record.steps);
    if (std::isfinite(record.step_seconds)) summary.training += steps * record.step_seconds;
    if (std::isfinite(record.step_samples())) {
      trained += steps * record.step_samples();
      counted = true;
    }
    if (record.redone) summary.redone += record.steps;
    summary.steps = record.step;
    if (std::isfinite(record.samples)) summary.samples = record.samples;
    if (std::isfinite(record.loss)) summary.loss = record.loss;
  }
  if (counted && summary.training > 0) {
    summary.samples_per_second = trained / summary.training;
    summary.samples_per_second_overall = trained / summary.seconds;
  }
  add_usage(run, summary);
  for (const WorldRecord& world : run.worlds) add_world(world, summary);
  for (const EvaluationRecord& test : run.evaluations) {
    summary.evaluations += test.seconds;
    summary.test_loss = test.loss;
    summary.test_accuracy = test.accuracy;
  }
  for (const CheckpointRecord& checkpoint : run.checkpoints)
    summary.checkpoints += checkpoint.seconds;
  summary.rank_hours = rank_seconds(run) / 3600;
  return summary;
}

Table summary_table(const std::vector<Run>& runs, const std::optional<Price>& price) {
  Table table{.id = "summary", .title = "Summary", .columns = {""}};
  std::vector<Summary> summaries;
  for (const Run& run : runs) {
    table.columns.push_back(run.name);
    summaries.push_back(summary_of(run));
  }
  const auto add = [&](const char* what,
                       const std::function<std::string(const Run&, const Summary&)>& value) {
    table.rows.push_back({what});
    for (std::size_t i = 0; i < runs.size(); ++i)
      table.rows.back().push_back(value(runs[i], summaries[i]));
  };
  add("program", [](const Run& run, const Summary&) { return run.program; });
  add("model, data", [](const Run& run, const Summary&) {
    return option(run, "model") + ", " + option(run, "data");
  });
  add("began", [](const Run& run, const Summary&) { return date(run.began); });
  add("ranks", [](const Run&, const Summary& s) {
    return s.fewest_ranks == s.most_ranks ? fmt::format("{}", s.most_ranks)
                                          : fmt::format("{} to {}", s.fewest_ranks, s.most_ranks);
  });
  add("joins, leaves, repairs", [](const Run&, const Summary& s) {
    return fmt::format("{}, {}, {}", s.joins, s.leaves, s.repairs);
  });
  add("steps", [](const Run& run, const Summary& s) {
    return run.steps.empty() ? "-"
           : s.redone > 0    ? fmt::format("{}, and {} made twice", s.steps, s.redone)
                             : fmt::format("{}", s.steps);
  });
  add("samples", [](const Run&, const Summary& s) { return format_number(s.samples); });
  add("seconds", [](const Run&, const Summary& s) { return format_number(s.seconds); });
  add("training s", [](const Run&, const Summary& s) { return with_share(s.training, s.seconds); });
  add("changes of the world s",
      [](const Run&, const Summary& s) { return with_share(s.standstill, s.seconds); });
  add("evaluations s",
      [](const Run&, const Summary& s) { return with_share(s.evaluations, s.seconds); });
  add("checkpoints s",
      [](const Run&, const Summary& s) { return with_share(s.checkpoints, s.seconds); });
  add("samples/s, training",
      [](const Run&, const Summary& s) { return format_number(s.samples_per_second); });
  add("samples/s, in all",
      [](const Run&, const Summary& s) { return format_number(s.samples_per_second_overall); });
  add("last loss", [](const Run&, const Summary& s) { return format_number(s.loss); });
  add("test loss", [](const Run&, const Summary& s) { return format_number(s.test_loss); });
  add("test accuracy", [](const Run&, const Summary& s) { return format_number(s.test_accuracy); });
  add("most memory of a rank MB",
      [](const Run&, const Summary& s) { return format_number(s.peak_memory / 1e6); });
  add("most memory of a GPU MB",
      [](const Run&, const Summary& s) { return format_number(s.gpu_memory / 1e6); });
  add("utilisation of the GPUs", [](const Run&, const Summary& s) {
    return std::isfinite(s.gpu_utilisation) ? fmt::format("{:.0f}%", 100 * s.gpu_utilisation)
                                            : std::string("-");
  });
  add("rank-hours", [](const Run&, const Summary& s) { return format_number(s.rank_hours); });
  if (price)
    add("cost", [&](const Run&, const Summary& s) {
      return format_number(s.rank_hours * price->per_rank_hour) + " " + price->currency;
    });
  // What no run has says nothing.
  std::erase_if(table.rows, [](const auto& row) {
    return std::all_of(row.begin() + 1, row.end(),
                       [](const std::string& cell) { return cell == "-" || cell == "-, -"; });
  });
  return table;
}

}  // namespace bellows::report
