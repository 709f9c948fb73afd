// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/throughput.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlopt.hpp>
#include <stdexcept>
#include <vector>

namespace bellows::trainer {

namespace {

constexpr double kTiny = 1e-8;  // what counts as no time, and as no further rank

// Their places in a vector: logarithms, and gamma as it is.
enum Place : std::size_t { kAlphaC, kBetaC, kAlphaN, kBetaN, kAlphaR, kBetaR, kGamma, kPlaces };
using Point = std::array<double, kPlaces>;

ThroughputModel model_at(const std::vector<double>& x) {
  return {std::exp(x[kAlphaC]),
          std::exp(x[kBetaC]),
          std::exp(x[kAlphaN]),
          std::exp(x[kBetaN]),
          std::exp(x[kAlphaR]),
          std::exp(x[kBetaR]),
          x[kGamma],
          0};
}

double further_ranks(int ranks) { return std::max(static_cast<double>(ranks - 2), kTiny); }

/// Root mean square of errors, and its derivatives.
class RootMeanSquare {
 public:
  void add(double error, const Point& slopes) {
    squares_ += error * error;
    for (std::size_t i = 0; i < kPlaces; ++i) slopes_[i] += error * slopes[i];
    ++count_;
  }
  double value(Point& gradient) const {
    const double root = std::sqrt(squares_ / count_);
    if (root > 1e-12)
      for (std::size_t i = 0; i < kPlaces; ++i) gradient[i] += slopes_[i] / count_ / root;
    return root;
  }

 private:
  double squares_ = 0;
  Point slopes_{};
  double count_ = 0;
};

double loss(std::span<const StepTimes> seen, const std::vector<double>& x, Point& gradient) {
  const ThroughputModel model = model_at(x);
  RootMeanSquare accumulate;
  RootMeanSquare optimize;
  for (const StepTimes& times : seen) {
    // Logarithms of both times, and their derivatives.
    const double compute = model.accumulate_seconds(times.micro_batch);
    const double network = model.network_seconds(times.nodes, times.ranks);
    Point of_compute{};
    of_compute[kAlphaC] = model.alpha_c / compute;
    of_compute[kBetaC] = model.beta_c * times.micro_batch / compute;
    accumulate.add(std::log(compute / times.accumulate_seconds), of_compute);
    const double all = model.optimize_seconds(times.nodes, times.ranks, times.micro_batch);
    const double share = std::pow(compute / all, model.gamma);
    Point of_all{};
    of_all[kAlphaC] = share * of_compute[kAlphaC];
    of_all[kBetaC] = share * of_compute[kBetaC];
    if (times.ranks > 1) {
      const bool several = times.nodes > 1;
      const double beta = several ? model.beta_n : model.beta_r;
      of_all[several ? kAlphaN : kAlphaR] =
          (1 - share) * (several ? model.alpha_n : model.alpha_r) / network;
      of_all[several ? kBetaN : kBetaR] = (1 - share) * beta * further_ranks(times.ranks) / network;
    }
    of_all[kGamma] =
        (share * std::log(compute / all) + (1 - share) * std::log(network / all)) / model.gamma;
    optimize.add(std::log(all / times.optimize_seconds), of_all);
  }
  const double several = model.beta_n / model.alpha_n;
  const double one = model.beta_r / model.alpha_r;
  gradient[kGamma] += 2e-3 * (model.gamma - 1);
  gradient[kBetaN] += 2e-2 * several * several;
  gradient[kAlphaN] -= 2e-2 * several * several;
  gradient[kBetaR] += 2e-2 * one * one;
  gradient[kAlphaR] -= 2e-2 * one * one;
  return accumulate.value(gradient) + optimize.value(gradient) +
         1e-3 * (model.gamma - 1) * (model.gamma - 1) + 1e-2 * (several * several + one * one);
}

double mean_of(std::span<const StepTimes> seen, double (*value)(const StepTimes&)) {
  double sum = 0;
  for (const StepTimes& times : seen) sum += value(times);
  return sum / static_cast<double>(seen.size());
}

void check(std::span<const StepTimes> seen) {
  if (seen.empty()) throw std::invalid_argument("no step times to fit a model to");
  for (const StepTimes& t : seen)
    if (!(t.accumulate_seconds > 0 && t.optimize_seconds > 0 && t.update_seconds >= 0 &&
          t.micro_batch > 0 &&
          std::isfinite(t.accumulate_seconds + t.optimize_seconds + t.update_seconds) &&
          t.nodes >= 1 && t.ranks >= t.nodes))
      throw std::invalid_argument("step times must be positive and of at least one rank per node");
}

/// Bounds and start; what nothing is known of is held fast.
struct Search {
  explicit Search(std::span<const StepTimes> seen) : seen_(seen) {
    const auto any = [&](auto condition) {
      return std::any_of(seen.begin(), seen.end(), condition);
    };
    const double compute = mean_of(seen, [](const auto& t) { return t.accumulate_seconds; });
    const double whole = mean_of(seen, [](const auto& t) { return t.optimize_seconds; });
    const double samples = mean_of(seen, [](const auto& t) { return t.micro_batch; });
    const double network = std::max(whole - compute, 0.1 * compute);
    lower_.fill(std::log(kTiny));
    upper_.fill(std::log(1e6));
    lower_[kGamma] = 1;
    upper_[kGamma] = 10;
    start_ = {std::log(compute / 2),
              std::log(compute / 2 / samples),
              std::log(network),
              std::log(network / 10),
              std::log(network),
              std::log(network / 10),
              1.001};
    if (!any([&](const auto& t) { return t.micro_batch != seen.front().micro_batch; }))
      hold(kAlphaC, std::log(compute / 2));
    // Their ratio counts in what is minimised: ten to one is what it starts with.
    const bool several = any([](const auto& t) { return t.nodes > 1; });
    const bool one = any([](const auto& t) { return t.nodes == 1 && t.ranks > 1; });
    const bool many = any([](const auto& t) { return t.ranks > 2; });
    if (!several) hold(kAlphaN, std::log(kTiny));
    if (!one) hold(kAlphaR, std::log(kTiny));
    if (!several || !many) hold(kBetaN, std::log(kTiny));
    if (!one || !many) hold(kBetaR, std::log(kTiny));
    for (std::size_t i = 0; i < kPlaces; ++i)
      start_[i] = std::clamp(start_[i], lower_[i], upper_[i]);
  }

  /// The best from this value of gamma on; gives the loss.
  double descend(double gamma, std::vector<double>& x) const {
    nlopt::opt search(nlopt::LD_LBFGS, kPlaces);
    search.set_lower_bounds({lower_.begin(), lower_.end()});
    search.set_upper_bounds({upper_.begin(), upper_.end()});
    search.set_min_objective(
        [](const std::vector<double>& at, std::vector<double>& slope, void* data) {
          Point gradient{};
          const double value = loss(static_cast<const Search*>(data)->seen_, at, gradient);
          if (!slope.empty()) std::copy(gradient.begin(), gradient.end(), slope.begin());
          return value;
        },
        const_cast<Search*>(this));
    search.set_xtol_rel(1e-9);
    search.set_maxeval(2000);
    x.assign(start_.begin(), start_.end());
    x[kGamma] = gamma;
    double value = 0;
    try {
      search.optimize(x, value);
    } catch (const nlopt::roundoff_limited&) {  // x is the best that was found
    } catch (const std::runtime_error&) {       // likewise: no step downwards
    }
    Point unused{};
    return loss(seen_, x, unused);
  }

 private:
  void hold(Place place, double value) { lower_[place] = upper_[place] = start_[place] = value; }
  std::span<const StepTimes> seen_;
  Point lower_{};
  Point upper_{};
  Point start_{};
};

}  // namespace

double ThroughputModel::accumulate_seconds(double micro_batch) const {
  return alpha_c + beta_c * micro_batch;
}

double ThroughputModel::network_seconds(int nodes, int ranks) const {
  if (ranks <= 1) return kTiny;
  return nodes > 1 ? alpha_n + beta_n * further_ranks(ranks)
                   : alpha_r + beta_r * further_ranks(ranks);
}

double ThroughputModel::optimize_seconds(int nodes, int ranks, double micro_batch) const {
  const double compute = accumulate_seconds(micro_batch);
  const double network = network_seconds(nodes, ranks);
  const double larger = std::max(compute, network);
  return larger *
         std::pow(std::pow(compute / larger, gamma) + std::pow(network / larger, gamma), 1 / gamma);
}

double ThroughputModel::step_seconds(int nodes, int ranks, double micro_batch,
                                     std::int64_t accumulation) const {
  return static_cast<double>(accumulation) * accumulate_seconds(micro_batch) +
         optimize_seconds(nodes, ranks, micro_batch) + update;
}

double ThroughputModel::throughput(int nodes, int ranks, double micro_batch,
                                   std::int64_t accumulation) const {
  return ranks * micro_batch * static_cast<double>(accumulation + 1) /
         step_seconds(nodes, ranks, micro_batch, accumulation);
}

ThroughputModel fit_throughput(std::span<const StepTimes> seen) {
  check(seen);
  const Search search(seen);
  std::vector<double> best;
  double least = INFINITY;
  // What is minimised has more than one valley; in which one it ends depends on gamma.
  for (const double gamma : {1.001, 2.0, 6.0}) {
    std::vector<double> x;
    const double value = search.descend(gamma, x);
    if (value < least) {
      least = value;
      best = x;
    }
  }
  ThroughputModel model = model_at(best);
  model.update = mean_of(seen, [](const auto& t) { return t.update_seconds; });
  if (std::none_of(seen.begin(), seen.end(), [](const auto& t) { return t.nodes > 1; })) {
    model.alpha_n = std::max(model.alpha_n, 1.1 * model.alpha_r);
    model.beta_n = std::max(model.beta_n, 1.1 * model.beta_r);
  }
  return model;
}

}  // namespace bellows::trainer
