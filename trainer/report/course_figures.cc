// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/course_figures.h"

#include <algorithm>
#include <functional>

#include "trainer/report/numbers.h"

namespace bellows::report {

namespace {

using Style = Series::Style;

// More points than can be told apart are put together.
constexpr std::size_t kMostPoints = 240;
constexpr std::size_t kMostEvents = 500;

/// Means of neighbours, so that at most kMostPoints are left.
std::vector<Point> thinned(const std::vector<Point>& all) {
  if (all.size() <= kMostPoints) return all;
  const std::size_t group = (all.size() + kMostPoints - 1) / kMostPoints;
  std::vector<Point> few;
  for (std::size_t first = 0; first < all.size(); first += group) {
    const std::size_t end = std::min(all.size(), first + group);
    Point sum;
    for (std::size_t i = first; i < end; ++i) {
      sum.x += all[i].x;
      sum.y += all[i].y;
    }
    const auto count = static_cast<double>(end - first);
    few.push_back({sum.x / count, sum.y / count});
  }
  return few;
}

using Value = std::function<double(const StepRecord&)>;

Figure of_steps(const std::vector<Run>& runs, Figure figure, bool by_time, const Value& value) {
  for (const Run& run : runs) {
    Series series{.name = run.name};
    for (const StepRecord& record : run.steps) {
      const double y = value(record);
      if (!std::isfinite(y) || (!by_time && record.redone)) continue;
      series.points.push_back({by_time ? record.time : static_cast<double>(record.step), y});
    }
    series.points = thinned(series.points);
    if (!series.points.empty()) figure.series.push_back(std::move(series));
  }
  figure.x_from_zero = by_time;
  figure.x_label = by_time ? "seconds since the start" : "step";
  return figure;
}

Series ranks_over_time(const Run& run) {
  Series series{.name = run.name, .style = Style::steps};
  auto& points = series.points;
  for (const WorldRecord& world : run.worlds)
    points.push_back({world.time, static_cast<double>(world.ranks)});
  if (points.empty() && !run.steps.empty())
    points.push_back({0, static_cast<double>(run.steps.front().ranks)});
  if (!points.empty()) points.push_back({run.seconds, points.back().y});
  return series;
}

Figure timeline(const std::vector<Run>& runs) {
  Figure figure{.id = "timeline",
                .title = "The world over time",
                .caption = "Ranks; dots are deaths and other losses.",
                .x_label = "seconds since the start",
                .y_label = "ranks",
                .x_from_zero = true,
                .whole_y = true};
  for (const Run& run : runs) {
    Series ranks = ranks_over_time(run);
    if (ranks.points.empty()) continue;
    figure.series.push_back(std::move(ranks));
    Series losses{.name = run.name + ": repairs", .style = Style::dots};
    for (const WorldRecord& world : run.worlds)
      if (world.cause == "repair")
        losses.points.push_back({world.time, static_cast<double>(world.ranks)});
    if (!losses.points.empty()) figure.series.push_back(std::move(losses));
  }
  return figure;
}

Figure tests(const std::vector<Run>& runs, bool accuracy) {
  Figure figure{.id = accuracy ? "test-accuracy" : "test-loss",
                .title = accuracy ? "Accuracy on the test data" : "Loss on the test data",
                .caption = "Each evaluation.",
                .x_label = "step",
                .y_label = accuracy ? "accuracy" : "loss",
                .from_zero = false};
  for (const Run& run : runs) {
    Series series{.name = run.name, .style = Style::points};
    for (const EvaluationRecord& test : run.evaluations) {
      const double y = accuracy ? test.accuracy : test.loss;
      if (std::isfinite(y)) series.points.push_back({static_cast<double>(test.step), y});
    }
    if (!series.points.empty()) figure.series.push_back(std::move(series));
  }
  return figure;
}

}  // namespace

std::vector<Figure> course_figures(const std::vector<Run>& runs) {
  std::vector<Figure> figures{timeline(runs)};
  const auto add = [&](Figure figure, bool by_time, const Value& value) {
    figures.push_back(of_steps(runs, std::move(figure), by_time, value));
  };
  add({.id = "throughput",
       .title = "Samples per second",
       .caption = "While training: without evaluations, checkpoints and changes of the world.",
       .y_label = "samples/s"},
      true, [](const StepRecord& r) { return r.samples_per_second; });
  add({.id = "loss",
       .title = "Loss",
       .caption = "Of the training batches.",
       .y_label = "loss",
       .from_zero = false},
      false, [](const StepRecord& r) { return r.loss; });
  figures.push_back(tests(runs, false));
  figures.push_back(tests(runs, true));
  add({.id = "batch",
       .title = "Batch",
       .caption = "Samples per step, over all ranks.",
       .y_label = "samples"},
      false, [](const StepRecord& r) { return r.batch; });
  add({.id = "learning-rate",
       .title = "Learning rate",
       .caption = "As used by the optimizer.",
       .y_label = "learning rate"},
      false, [](const StepRecord& r) { return r.learning_rate; });
  add({.id = "gradient-norm",
       .title = "Norm of the gradient",
       .caption = "Before clipping.",
       .y_label = "norm"},
      false, [](const StepRecord& r) { return r.gradient_norm > 0 ? r.gradient_norm : kUnknown; });
  add({.id = "noise-scale",
       .title = "Gradient noise scale",
       .caption = "McCandlish et al. 2018: the batch up to which a larger one pays.",
       .y_label = "samples"},
      false, [](const StepRecord& r) { return r.noise_scale; });
  add({.id = "memory",
       .title = "Memory",
       .caption = "The most that any rank has had of main memory until then.",
       .y_label = "MB"},
      false, [](const StepRecord& r) { return r.peak_memory / 1e6; });
  add({.id = "gpu-memory",
       .title = "Memory of the GPUs",
       .caption = "In use on the fullest.",
       .y_label = "MB"},
      true, [](const StepRecord& r) { return r.gpu_memory / 1e6; });
  add({.id = "gpu-utilisation",
       .title = "Utilisation of the GPUs",
       .caption = "The part of the time in which a kernel ran (NVML): the mean of all.",
       .y_label = "utilisation"},
      true, [](const StepRecord& r) { return r.gpu_utilisation; });
  std::erase_if(figures, [](const Figure& figure) { return figure.series.empty(); });
  return figures;
}

Table change_table(const std::vector<Run>& runs) {
  Table table{.id = "changes",
              .title = "Changes of the world",
              .caption =
                  "Standstill: from the end of the last step before until the training goes "
                  "on.",
              .columns = {"run", "seconds", "step", "cause", "ranks", "joined", "left or lost",
                          "standstill s", "state sent MB"},
              .appendix = true};
  for (const Run& run : runs)
    for (const WorldRecord& world : run.worlds) {
      const bool tells = std::isfinite(world.standstill_seconds);
      table.rows.push_back({run.name, fmt::format("{:.1f}", world.time),
                            tells ? fmt::format("{}", world.step) : "-", world.cause,
                            fmt::format("{}", world.ranks), fmt::format("{}", world.joined),
                            fmt::format("{}", world.left),
                            tells ? fmt::format("{:.3f}", world.standstill_seconds) : "-",
                            tells ? fmt::format("{:.1f}", world.bytes / 1e6) : "-"});
    }
  return table;
}

Table event_table(const std::vector<Run>& runs) {
  Table table{.id = "events",
              .title = "What happened to the job",
              .columns = {"run", "seconds", "event", "ranks", "nodes", "took s", "what"},
              .appendix = true};
  for (const Run& run : runs) {
    std::size_t left_out = run.events.size() > kMostEvents ? run.events.size() - kMostEvents : 0;
    if (left_out > 0) table.caption += fmt::format("Of {} the latest {}. ", run.name, kMostEvents);
    for (const protocol::JobEvent& event : run.events) {
      if (left_out > 0 && left_out-- > 0) continue;
      std::string nodes;
      for (const std::string& node : event.nodes) nodes += (nodes.empty() ? "" : " ") + node;
      table.rows.push_back({run.name, fmt::format("{:.1f}", event.time - run.began), event.kind,
                            fmt::format("{}", event.ranks), nodes,
                            event.seconds > 0 ? fmt::format("{:.3f}", event.seconds) : "",
                            event.text});
    }
  }
  return table;
}

}  // namespace bellows::report
