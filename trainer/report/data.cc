// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "trainer/report/summary.h"

namespace bellows::report {
namespace json = boost::json;

namespace {

constexpr int kVersion = 1;

/// JSON has no infinity and no NaN.
json::value number(double value) { return std::isfinite(value) ? json::value(value) : nullptr; }

json::object spread_json(const Spread& spread) {
  return {{"median", number(spread.median)},
          {"low", number(spread.low)},
          {"high", number(spread.high)},
          {"steps", number(spread.count)}};
}

json::object prediction_json(const Prediction& size) {
  return {{"nodes", size.nodes},
          {"ranks", size.ranks},
          {"batch", number(size.batch)},
          {"step_seconds", number(size.step_seconds)},
          {"samples_per_second", number(size.speed)},
          {"rank_seconds_per_sample", number(size.rank_seconds_per_sample)}};
}

json::value model_json(const std::optional<Predictions>& found) {
  if (!found) return nullptr;
  json::array sizes;
  for (const Prediction& size : found->sizes) sizes.push_back(prediction_json(size));
  const trainer::ThroughputModel& m = found->model;
  return json::object{
      {"update", m.update},
      {"alpha_c", m.alpha_c},
      {"beta_c", m.beta_c},
      {"alpha_n", m.alpha_n},
      {"beta_n", m.beta_n},
      {"alpha_r", m.alpha_r},
      {"beta_r", m.beta_r},
      {"gamma", m.gamma},
      {"error", number(found->error)},
      {"sizes", std::move(sizes)},
      {"fastest_ranks", found->fastest.ranks},
      {"cheapest_ranks", found->cheapest.ranks},
      {"most_goodput", found->most_goodput ? json::value(prediction_json(*found->most_goodput))
                                           : json::value(nullptr)},
      {"goodput", number(found->goodput)}};
}

json::object scaling_json(const NamedScaling& named) {
  json::array sizes;
  for (const SizeResult& size : named.scaling.sizes) {
    json::object parts;
    for (const auto& [name, seconds] : size.parts) parts[name] = number(seconds);
    sizes.push_back({{"ranks", size.ranks},
                     {"batch", number(size.batch)},
                     {"step_seconds", spread_json(size.seconds)},
                     {"samples_per_second", spread_json(size.speed)},
                     {"parts", std::move(parts)},
                     {"speedup", number(size.speedup)},
                     {"efficiency", number(size.efficiency)},
                     {"karp_flatt", number(size.karp_flatt)},
                     {"rank_seconds_per_sample", number(size.rank_seconds_per_sample)}});
  }
  const Scaling& scaling = named.scaling;
  return {{"name", named.name},
          {"kind", to_string(scaling.kind)},
          {"base", scaling.base},
          {"sizes", std::move(sizes)},
          {"amdahl_serial_fraction", number(scaling.amdahl.value_or(kUnknown))},
          {"amdahl_error", scaling.amdahl ? number(scaling.amdahl_error) : nullptr},
          {"gustafson_serial_fraction", number(scaling.gustafson.value_or(kUnknown))},
          {"half_efficient_ranks", number(scaling.half_efficient.value_or(kUnknown))},
          {"noise_scale", number(scaling.noise_scale)},
          {"throughput_model", model_json(named.predictions)}};
}

json::object run_json(const Run& run) {
  const Summary s = summary_of(run);
  json::array worlds;
  for (const WorldRecord& world : run.worlds)
    worlds.push_back({{"seconds", world.time},
                      {"step", world.step},
                      {"ranks", world.ranks},
                      {"cause", world.cause},
                      {"joined", world.joined},
                      {"left", world.left},
                      {"standstill_seconds", number(world.standstill_seconds)},
                      {"bytes", number(world.bytes)}});
  return {{"name", run.name},
          {"program", run.program},
          {"options", json::value_from(run.options)},
          {"began", number(run.began)},
          {"seconds", number(s.seconds)},
          {"training_seconds", number(s.training)},
          {"standstill_seconds", number(s.standstill)},
          {"evaluation_seconds", number(s.evaluations)},
          {"checkpoint_seconds", number(s.checkpoints)},
          {"steps", run.steps.empty() ? json::value(nullptr) : json::value(s.steps)},
          {"redone_steps", s.redone},
          {"samples", number(s.samples)},
          {"samples_per_second", number(s.samples_per_second)},
          {"samples_per_second_overall", number(s.samples_per_second_overall)},
          {"rank_hours", number(s.rank_hours)},
          {"peak_memory_bytes", number(s.peak_memory)},
          {"gpu_memory_bytes", number(s.gpu_memory)},
          {"gpu_utilisation", number(s.gpu_utilisation)},
          {"loss", number(s.loss)},
          {"test_loss", number(s.test_loss)},
          {"test_accuracy", number(s.test_accuracy)},
          {"joins", s.joins},
          {"leaves", s.leaves},
          {"repairs", s.repairs},
          {"worlds", std::move(worlds)},
          {"notes", json::value_from(run.notes)}};
}

json::object figure_json(const Figure& figure) {
  json::array all;
  for (const Series& series : figure.series) {
    json::array points;
    for (const Point& p : series.points) {
      json::array point{number(p.x), number(p.y)};
      if (series.spread) point.insert(point.end(), {number(p.low), number(p.high)});
      points.push_back(std::move(point));
    }
    all.push_back({{"name", series.name}, {"points", std::move(points)}});
  }
  json::object object{{"id", figure.id},
                      {"title", figure.title},
                      {"x", figure.x_label},
                      {"y", figure.y_label},
                      {"series", std::move(all)}};
  if (!figure.bars.empty()) object["bars"] = json::value_from(figure.bars);
  return object;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// Columns in step, two spaces apart. What is no character of its own counts as none.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string table_text(const Table& table) {
  std::vector<std::size_t> widths;
  const auto measure = [&](const std::vector<std::string>& cells) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width(cells[i]));
  };
  measure(table.columns);
  for (const auto& cells : table.rows) measure(cells);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i)
      text += cells[i] + std::string(widths[i] - width(cells[i]) + 2, ' ');
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line(table.columns);
  for (const auto& cells : table.rows) text += line(cells);
  return text;
}

}  // namespace

std::string json_text(const Contents& contents, const std::vector<Run>& runs,
                      const std::vector<NamedScaling>& scalings) {
  json::array all, scaled, figures;
  for (const Run& run : runs) all.push_back(run_json(run));
  for (const NamedScaling& named : scalings) scaled.push_back(scaling_json(named));
  for (const Figure& figure : contents.figures) figures.push_back(figure_json(figure));
  return json::serialize(json::object{{"version", kVersion},
                                      {"title", contents.title},
                                      {"notes", json::value_from(contents.notes)},
                                      {"runs", std::move(all)},
                                      {"scaling", std::move(scaled)},
                                      {"figures", std::move(figures)}}) +
         "\n";
}

std::string csv_text(const Contents& contents) {
  std::string text = "figure,series,x,y,low,high\n";
  for (const Figure& figure : contents.figures)
    for (const Series& series : figure.series)
      for (const Point& p : series.points) {
        const std::string x = figure.bars.empty()
                                  ? fmt::format("{}", p.x)
                                  : csv_cell(figure.bars[static_cast<std::size_t>(p.x)]);
        text += fmt::format("{},{},{},{},{},{}\n", figure.id, csv_cell(series.name), x, p.y,
                            series.spread ? fmt::format("{}", p.low) : "",
                            series.spread ? fmt::format("{}", p.high) : "");
      }
  return text;
}

std::string summary_text(const Contents& contents) {
  std::string text;
  for (const Table& table : contents.tables) {
    if (table.appendix || table.rows.empty()) continue;
    text += (text.empty() ? "" : "\n") + table_text(table);
    if (!table.caption.empty()) text += table.caption + "\n";
  }
  return text;
}

}  // namespace bellows::report
