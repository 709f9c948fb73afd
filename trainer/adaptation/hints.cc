// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/hints.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "trainer/adaptation/gradient_noise.h"
#include "trainer/adaptation/rules.h"

namespace bellows::trainer {

namespace {

// Less than that is not worth nodes, and no model is as good.
constexpr double kWithin = 0.99;

int over(int count, int parts) { return (count + parts - 1) / parts; }

PlanFor plans_of(const Options& options, const Adaptation& now, const Goodput& goodput) {
  if (!options.policy.empty())
    return [&](int, int ranks) { return make_plan(options, now.batch, 0, ranks); };
  if (options.batch_rule != "adaptive")
    return [&](int, int ranks) {
      return make_plan(options, batch_for(options, now.rank_batch, ranks), 0, ranks);
    };
  return [&](int nodes, int ranks) {
    const Configuration best = goodput.best(
        nodes, ranks, {options.max_batch, options.micro_batch_least, options.micro_batch_most});
    return make_plan(options, best.batch(ranks), best.micro_batch, ranks);
  };
}

/// The sizes in nodes that there are, and what they have of ranks.
struct Sizes {
  explicit Sizes(const Standpoint& at)
      : here(at), on_a_node(std::max(1, over(at.ranks, at.nodes))) {
    least = std::min(at.nodes, std::max(1, over(at.least_ranks, on_a_node)));
    most = std::clamp(at.most_ranks / on_a_node, at.nodes, std::max(at.nodes, kMostNodes));
  }
  int ranks(int nodes) const { return nodes == here.nodes ? here.ranks : nodes * on_a_node; }

  Standpoint here;
  int on_a_node, least = 1, most = 1;
};

/// Whether the model knows what it would be asked.
bool enough_seen(const std::vector<StepTimes>& times, const Standpoint& at,
                 const PlanFor& plan_for) {
  const auto any = [&](auto condition) {
    return std::any_of(times.begin(), times.end(), condition);
  };
  if (!any([&](const StepTimes& t) { return t.nodes == at.nodes && t.ranks == at.ranks; }) ||
      !any([](const StepTimes& t) { return t.ranks > 1; }))
    return false;
  const double one = times.front().micro_batch;
  if (any([&](const StepTimes& t) { return t.micro_batch != one; })) return true;
  const Sizes sizes(at);
  for (int nodes = sizes.least; nodes <= sizes.most; ++nodes)
    if (static_cast<double>(plan_for(nodes, sizes.ranks(nodes)).micro_batch) != one) return false;
  return true;
}

}  // namespace

double predicted_goodput(const Goodput& goodput, int nodes, int ranks, const BatchPlan& plan) {
  const double seconds = goodput.model.step_seconds(
      nodes, ranks, static_cast<double>(plan.micro_batch), plan.accumulation);
  const double speed = static_cast<double>(plan.batch) / seconds;
  if (goodput.square <= 0 && goodput.variance <= 0) return speed;
  const double scale = static_cast<double>(plan.batch) / static_cast<double>(goodput.base_batch);
  return speed * efficiency(goodput.square, goodput.variance, scale);
}

SizeHints find_hints(const Goodput& goodput, const Standpoint& at, const PlanFor& plan_for) {
  const Sizes sizes(at);
  const int least = sizes.least, most = sizes.most;
  std::vector<double> values;  // from `least` on
  for (int nodes = least; nodes <= most; ++nodes) {
    const int ranks = sizes.ranks(nodes);
    values.push_back(predicted_goodput(goodput, nodes, ranks, plan_for(nodes, ranks)));
  }
  const auto value = [&](int nodes) { return values[static_cast<std::size_t>(nodes - least)]; };

  const double highest = *std::max_element(values.begin(), values.end());
  const auto best = std::find_if(values.begin(), values.end(),
                                 [&](double one) { return one >= kWithin * highest; });
  int economic = least;
  while (economic < most &&
         (value(economic + 1) - value(economic)) / (value(economic) / economic) >= kEconomicGain)
    ++economic;

  SizeHints hints;
  hints.best_nodes = least + static_cast<int>(best - values.begin());
  hints.best_ranks = sizes.ranks(hints.best_nodes);
  hints.economic_nodes = economic;
  hints.economic_ranks = sizes.ranks(economic);
  const double here = value(at.nodes);
  hints.goodput = here;
  if (at.nodes < most) hints.gain_of_more = value(at.nodes + 1) / here - 1;
  if (at.nodes > least) hints.loss_of_less = 1 - value(at.nodes - 1) / here;
  return hints;
}

std::optional<SizeHints> hints_of(const Options& options, const Adaptation& now,
                                  const Standpoint& at) {
  const std::vector<StepTimes> times = now.profile.times();
  if (times.empty()) return std::nullopt;
  const bool noise = now.noise.front().estimates >= kEnoughEstimates;
  if (options.batch_rule == "adaptive" && options.policy.empty() && !noise) return std::nullopt;
  Goodput goodput{fit_throughput(times), 0, 0, options.batch};
  if (noise) {
    const std::span<const NoiseAverages> groups(now.noise);
    goodput.square = mean_gradient_square(groups);
    goodput.variance = gradient_variance(groups);
  }
  const PlanFor plan_for = plans_of(options, now, goodput);
  if (!enough_seen(times, at, plan_for)) return std::nullopt;
  return find_hints(goodput, at, plan_for);
}

const std::optional<SizeHints>& PacedHints::look(const Options& options, const Adaptation& now,
                                                 const Standpoint& at) {
  const auto time = Clock::now();
  if (looked_ && time - *looked_ < (hints_ ? kPause : kFirstPause)) return hints_;
  looked_ = time;
  hints_ = hints_of(options, now, at);
  return hints_;
}

}  // namespace bellows::trainer
