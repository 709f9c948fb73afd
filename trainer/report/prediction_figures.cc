// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/prediction_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "trainer/report/numbers.h"

namespace bellows::report {

namespace {

std::set<int> worth_showing(const Scaling& scaling, const Predictions& all) {
  std::set<int> ranks{all.fastest.ranks, all.cheapest.ranks};
  for (const SizeResult& size : scaling.sizes) ranks.insert(size.ranks);
  for (int n = 1; n <= all.sizes.back().ranks; n *= 2) ranks.insert(n);
  return ranks;
}

}  // namespace

Table prediction_table(const std::vector<NamedScaling>& all, const std::optional<Price>& price) {
  Table table{.id = "prediction",
              .title = "What the throughput model expects",
              .columns = {"run", "nodes", "ranks", "batch", "ms per step", "samples/s", "measured",
                          price ? price->currency + " per million samples"
                                : "rank-seconds per 1000 samples",
                          "best by"}};
  const double scale = price ? 1e6 / 3600 * price->per_rank_hour : 1e3;
  const auto add = [&](const std::string& name, const Prediction& size, double measured,
                       const std::string& best) {
    table.rows.push_back({name, fmt::format("{}", size.nodes), fmt::format("{}", size.ranks),
                          format_number(size.batch), format_number(1e3 * size.step_seconds),
                          format_number(size.speed), format_number(measured),
                          format_number(scale * size.rank_seconds_per_sample), best});
  };
  for (const NamedScaling& named : all) {
    if (!named.predictions) continue;
    const Predictions& found = *named.predictions;
    for (const int ranks : worth_showing(named.scaling, found)) {
      const auto size = std::ranges::find(named.scaling.sizes, ranks, &SizeResult::ranks);
      std::string best = ranks == found.fastest.ranks ? "speed" : "";
      if (ranks == found.cheapest.ranks) best += best.empty() ? "cost" : ", cost";
      add(named.name, found.sizes.at(static_cast<std::size_t>(ranks - 1)),
          size != named.scaling.sizes.end() ? size->speed.median : kUnknown, best);
    }
    if (found.most_goodput) add(named.name, *found.most_goodput, kUnknown, "goodput");
    table.caption += fmt::format(
        "{}{}: the model of step times (Qiao et al., OSDI 2021) fits within {:.1f}%; it was asked "
        "for 1 to {} ranks.",
        table.caption.empty() ? "" : " ", named.name, 100 * found.error, found.sizes.back().ranks);
    if (found.fastest.ranks == found.sizes.back().ranks && found.fastest.ranks > 1)
      table.caption += " The most were the fastest: more may be faster still.";
    if (found.most_goodput)
      table.caption += fmt::format(
          " With a gradient noise scale of {} most progress is made by {} ranks with a batch of "
          "{}.",
          format_number(named.scaling.noise_scale), found.most_goodput->ranks,
          format_number(found.most_goodput->batch));
  }
  return table;
}

Series prediction_series(const NamedScaling& named, Predicted what, double scale) {
  Series series{.name = named.name + ": throughput model"};
  if (!named.predictions) return series;
  // Against what was measured of the smallest size, as the points are.
  const SizeResult& base = named.scaling.sizes.front();
  const double one = base.speed.median / base.ranks;
  constexpr std::size_t kMostPoints = 64;
  const auto& sizes = named.predictions->sizes;
  const std::size_t every = (sizes.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < sizes.size(); i += every) {
    const double n = sizes[i].ranks;
    const double speedup = sizes[i].speed / one;
    const double value = what == Predicted::speedup      ? speedup
                         : what == Predicted::efficiency ? speedup / n
                                                         : sizes[i].rank_seconds_per_sample;
    series.points.push_back({n, scale * value});
  }
  return series;
}

}  // namespace bellows::report
