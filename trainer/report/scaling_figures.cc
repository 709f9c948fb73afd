// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/scaling_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "trainer/report/numbers.h"
#include "trainer/report/prediction_figures.h"

namespace bellows::report {

namespace {

using Style = Series::Style;

/// Speed-up by the fit.
double fitted(const Scaling& scaling, double n) {
  if (scaling.gustafson) return n - *scaling.gustafson * (n - 1);
  const double f = scaling.amdahl.value_or(0), base = scaling.base;
  // The base counts as ideal.
  return base * (f + (1 - f) / base) / (f + (1 - f) / n);
}

void add_fit(const NamedScaling& named, Figure& figure, bool per_rank) {
  const Scaling& scaling = named.scaling;
  if (!scaling.amdahl && !scaling.gustafson) return;
  Series series{.name = named.name + (scaling.gustafson ? ": Gustafson's law" : ": Amdahl's law")};
  const double first = scaling.base, last = scaling.sizes.back().ranks;
  for (int i = 0; i <= 24; ++i) {
    const double n = first + (last - first) * i / 24;
    const double s = fitted(scaling, n);
    series.points.push_back({n, per_rank ? s / n : s});
  }
  figure.series.push_back(std::move(series));
}

void add_prediction(const NamedScaling& named, Predicted what, double scale, Figure& figure) {
  Series series = prediction_series(named, what, scale);
  if (!series.points.empty()) figure.series.push_back(std::move(series));
}

Figure ratio_figure(const std::vector<NamedScaling>& all, bool per_rank) {
  Figure figure;
  double first = 1, last = 1;
  for (const NamedScaling& named : all) {
    for (const SizeResult& size : named.scaling.sizes) last = std::max<double>(last, size.ranks);
    if (named.predictions) last = std::max<double>(last, named.predictions->sizes.back().ranks);
  }
  figure.series.push_back(
      {"ideal", Style::ideal, false, {{first, 1}, {last, per_rank ? 1 : last}}});
  for (const NamedScaling& named : all) {
    const Scaling& scaling = named.scaling;
    if (scaling.sizes.empty()) continue;
    Series series{.name = named.name, .style = Style::points, .spread = true};
    const double base = scaling.sizes.front().speed.median / scaling.base;
    for (const SizeResult& size : scaling.sizes) {
      const double scale = base * (per_rank ? size.ranks : 1);
      series.points.push_back({static_cast<double>(size.ranks), size.speed.median / scale,
                               size.speed.low / scale, size.speed.high / scale});
    }
    figure.series.push_back(std::move(series));
    add_fit(named, figure, per_rank);
    add_prediction(named, per_rank ? Predicted::efficiency : Predicted::speedup, 1, figure);
  }
  figure.x_label = "ranks";
  figure.whole_x = true;
  return figure;
}

/// In the order in which a step does them.
const std::vector<std::string> kParts{"data",          "forward", "backward",  "agreement",
                                      "communication", "update",  "checkpoint"};

std::vector<std::string> parts_of(const std::vector<NamedScaling>& all) {
  std::set<std::string> known;
  for (const NamedScaling& named : all)
    for (const SizeResult& size : named.scaling.sizes)
      for (const auto& [name, seconds] : size.parts) known.insert(name);
  std::vector<std::string> ordered;
  const auto move = [&](const std::string& name) {
    if (known.erase(name) > 0) ordered.push_back(name);
  };
  for (const std::string& name : kParts) move(name);
  const bool other = known.erase("other") > 0;
  ordered.insert(ordered.end(), known.begin(), known.end());
  if (other) ordered.emplace_back("other");
  return ordered;
}

}  // namespace

Figure speedup_figure(const std::vector<NamedScaling>& all) {
  Figure figure = ratio_figure(all, false);
  figure.id = "speedup";
  figure.title = "Speed-up";
  figure.y_label = "speed-up";
  figure.caption =
      "Samples per second against those of the smallest size, which counts as ideal. Medians over "
      "steps, with quartiles.";
  return figure;
}

Figure efficiency_figure(const std::vector<NamedScaling>& all) {
  Figure figure = ratio_figure(all, true);
  figure.id = "efficiency";
  figure.title = "Efficiency";
  figure.y_label = "efficiency";
  figure.caption =
      "Speed-up per rank: t1 / (N tN) where the batch is the same at each size (strong scaling), "
      "t1 / tN where it grows with the ranks (weak scaling).";
  return figure;
}

Figure breakdown_figure(const std::vector<NamedScaling>& all) {
  Figure figure;
  figure.id = "breakdown";
  figure.title = "Where the time of a step goes";
  figure.x_label = all.size() > 1 ? "run: ranks" : "ranks";
  figure.y_label = "milliseconds per step";
  figure.caption =
      "Means, of rank 0. Communication is what the backward pass does not hide: waiting for the "
      "other ranks included.";
  for (const std::string& part : parts_of(all)) figure.series.push_back({.name = part});
  for (const NamedScaling& named : all) {
    for (const SizeResult& size : named.scaling.sizes) {
      if (size.parts.empty()) continue;
      const auto x = static_cast<double>(figure.bars.size());
      for (Series& series : figure.series) {
        const auto part = size.parts.find(series.name);
        series.points.push_back({x, part != size.parts.end() ? 1e3 * part->second : 0});
      }
      figure.bars.push_back(all.size() > 1 ? fmt::format("{}: {}", named.name, size.ranks)
                                           : fmt::format("{}", size.ranks));
    }
  }
  return figure;
}

Figure cost_figure(const std::vector<NamedScaling>& all, const std::optional<Price>& price) {
  Figure figure;
  figure.id = "cost";
  figure.title = "Cost per sample";
  figure.x_label = "ranks";
  figure.whole_x = true;
  figure.y_label =
      price ? price->currency + " per million samples" : "rank-seconds per 1000 samples";
  figure.caption = price ? fmt::format("At {} {} per rank and hour, while training.",
                                       format_number(price->per_rank_hour), price->currency)
                         : "Ranks times seconds, while training.";
  const double scale = price ? 1e6 / 3600 * price->per_rank_hour : 1e3;
  for (const NamedScaling& named : all) {
    Series series{.name = named.name, .style = Style::points};
    for (const SizeResult& size : named.scaling.sizes)
      series.points.push_back(
          {static_cast<double>(size.ranks), scale * size.rank_seconds_per_sample});
    if (!series.points.empty()) figure.series.push_back(std::move(series));
    add_prediction(named, Predicted::cost, scale, figure);
  }
  return figure;
}

Table scaling_table(const std::vector<NamedScaling>& all) {
  Table table{.id = "scaling",
              .title = "Scaling",
              .columns = {"run", "kind", "ranks", "batch", "steps", "ms per step", "quartiles",
                          "samples/s", "speed-up", "efficiency", "Karp-Flatt"}};
  for (const NamedScaling& named : all) {
    for (const SizeResult& size : named.scaling.sizes)
      table.rows.push_back(
          {named.name, to_string(named.scaling.kind), fmt::format("{}", size.ranks),
           format_number(size.batch), fmt::format("{:.0f}", size.seconds.count),
           format_number(1e3 * size.seconds.median),
           format_number(1e3 * size.seconds.low) + " to " + format_number(1e3 * size.seconds.high),
           format_number(size.speed.median), format_number(size.speedup),
           fmt::format("{:.1f}%", 100 * size.efficiency), format_number(size.karp_flatt)});
  }
  return table;
}

std::vector<std::string> fit_sentences(const NamedScaling& named) {
  std::vector<std::string> sentences;
  const Scaling& scaling = named.scaling;
  if (scaling.amdahl) {
    sentences.push_back(
        fmt::format("{}: Amdahl's law with a serial fraction of {} fits within "
                    "{:.1f}%.",
                    named.name, format_number(*scaling.amdahl), 100 * scaling.amdahl_error));
    if (*scaling.amdahl > 0.99)
      sentences.push_back(named.name + ": more ranks were no faster.");
    else
      sentences.push_back(
          scaling.half_efficient
              ? fmt::format("{}: by this law up to {:.0f} ranks have an efficiency of 50% or more "
                            "({} were measured).",
                            named.name, std::floor(*scaling.half_efficient),
                            scaling.sizes.back().ranks)
              : named.name + ": by this law there is no limit yet to the ranks that pay.");
  }
  if (scaling.gustafson)
    sentences.push_back(fmt::format("{}: Gustafson's law fits with a serial fraction of {}.",
                                    named.name, format_number(*scaling.gustafson)));
  if (scaling.base > 1)
    sentences.push_back(
        fmt::format("{}: the smallest size is {} ranks: speed-up and efficiency "
                    "take that for ideal.",
                    named.name, scaling.base));
  return sentences;
}

std::vector<std::string> doubts(const NamedScaling& named) {
  // Noise makes some per cent.
  constexpr double kTooGood = 1.1;
  std::vector<std::string> sentences;
  const Scaling& scaling = named.scaling;
  std::string too_good, batches, changed;
  const auto append = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  for (const SizeResult& size : scaling.sizes) {
    if (size.efficiency > kTooGood)
      append(too_good, fmt::format("{} ({:.0f}%)", size.ranks, 100 * size.efficiency));
    append(batches, fmt::format("{} of {}", size.ranks, format_number(size.batch)));
    if (size.batches_differ) append(changed, fmt::format("{}", size.ranks));
  }
  if (!too_good.empty())
    sentences.push_back(fmt::format(
        "{}: an efficiency far above 100% at {} ranks: most likely the smaller sizes were "
        "disturbed. Measure them again (bellows-bench --repeat). Else each rank has something that "
        "a smaller size has too little of: cache, memory, disks.",
        named.name, too_good));
  if (scaling.sizes.size() > 1 && scaling.kind == Scaling::Kind::mixed)
    sentences.push_back(
        fmt::format("{}: the batch is neither the same at each size nor grows with the ranks "
                    "(ranks of batch: {}): steps that are not alike are compared by their samples "
                    "per second.",
                    named.name, batches));
  if (!changed.empty())
    sentences.push_back(fmt::format(
        "{}: the batch changed while it was measured at {} ranks: steps of several batches are "
        "counted together.",
        named.name, changed));
  return sentences;
}

}  // namespace bellows::report
