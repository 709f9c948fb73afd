// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/prediction.h"

#include <algorithm>
#include <set>

#include "trainer/adaptation/goodput.h"

namespace bellows::report {

namespace {

using trainer::ThroughputModel;

std::int64_t over(std::int64_t count, std::int64_t parts) { return (count + parts - 1) / parts; }

/// What other sizes are made of.
struct Shape {
  int ranks_per_node = 1;
  std::int64_t most_at_once = 1;  // samples of a pass
  int reach = 1;                  // ranks

  explicit Shape(const Scaling& scaling) {
    int nodes = 1, largest = 1;
    for (const MeasuredPasses& seen : scaling.passes) {
      nodes = std::max(nodes, seen.times.nodes);
      largest = std::max(largest, seen.times.ranks);
      ranks_per_node =
          std::max(ranks_per_node, static_cast<int>(over(seen.times.ranks, seen.times.nodes)));
      most_at_once =
          std::max(most_at_once, static_cast<std::int64_t>(std::ceil(seen.times.micro_batch)));
    }
    reach = nodes > 1 && largest > 2 ? 4 * largest : largest;
  }
  int nodes(int ranks) const { return static_cast<int>(over(ranks, ranks_per_node)); }
};

Prediction prediction(const ThroughputModel& model, int nodes, int ranks, double batch,
                      std::int64_t accumulation) {
  Prediction size{nodes, ranks, batch};
  const double passes = static_cast<double>(accumulation) + 1;
  size.step_seconds = model.step_seconds(nodes, ranks, batch / ranks / passes, accumulation);
  size.speed = batch / size.step_seconds;
  size.rank_seconds_per_sample = ranks / size.speed;
  return size;
}

double batch_of(const Scaling& scaling, int ranks) {
  const SizeResult& base = scaling.sizes.front();
  return scaling.kind == Scaling::Kind::weak ? base.batch / base.ranks * ranks : base.batch;
}

void find_most_goodput(const Scaling& scaling, const Shape& shape, Predictions& all) {
  if (!(scaling.noise_scale > 0) || scaling.base_batch <= 0) return;
  const trainer::Goodput goodput{all.model, 1,
                                 scaling.noise_scale / static_cast<double>(scaling.base_batch),
                                 scaling.base_batch};
  for (const Prediction& size : all.sizes) {
    const auto best =
        goodput.best(size.nodes, size.ranks, {scaling.max_batch, 0, shape.most_at_once});
    const double value = goodput(size.nodes, size.ranks, best);
    if (all.most_goodput && value <= all.goodput) continue;
    all.goodput = value;
    all.most_goodput = prediction(all.model, size.nodes, size.ranks,
                                  static_cast<double>(best.batch(size.ranks)), best.accumulation);
  }
}

}  // namespace

std::optional<Predictions> predict(const Scaling& scaling) {
  std::set<int> sizes;
  std::vector<trainer::StepTimes> times;
  for (const MeasuredPasses& seen : scaling.passes) {
    sizes.insert(seen.times.ranks);
    times.push_back(seen.times);
  }
  if (sizes.size() < 2 || !std::isfinite(scaling.sizes.front().batch)) return std::nullopt;
  Predictions all{.model = trainer::fit_throughput(times)};
  for (const auto& [seen, accumulation] : scaling.passes) {
    const double measured = static_cast<double>(accumulation) * seen.accumulate_seconds +
                            seen.optimize_seconds + seen.update_seconds;
    const double expected =
        all.model.step_seconds(seen.nodes, seen.ranks, seen.micro_batch, accumulation);
    all.error = std::max(all.error, std::abs(expected / measured - 1));
  }
  const Shape shape(scaling);
  for (int ranks = 1; ranks <= shape.reach; ++ranks) {
    const double batch = batch_of(scaling, ranks);
    const std::int64_t share = std::max<std::int64_t>(1, std::llround(batch / ranks));
    all.sizes.push_back(prediction(all.model, shape.nodes(ranks), ranks, batch,
                                   over(share, shape.most_at_once) - 1));
  }
  all.fastest = *std::ranges::max_element(all.sizes, {}, &Prediction::speed);
  all.cheapest = *std::ranges::min_element(all.sizes, {}, &Prediction::rank_seconds_per_sample);
  find_most_goodput(scaling, shape, all);
  return all;
}

}  // namespace bellows::report
