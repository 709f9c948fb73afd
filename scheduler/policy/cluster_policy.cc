// SPDX-License-Identifier: Apache-2.0
#include "scheduler/policy/cluster_policy.h"

#include <limits>
#include <stdexcept>
#include <tuple>

#include "scheduler/policy/worth.h"

namespace bellows::scheduler {
namespace {

class Fair : public ClusterPolicy {
 public:
  // Among equals who holds more, so that nothing moves without need.
  std::optional<std::size_t> next(std::span<const Candidate> candidates) const override {
    const auto order = [](const Candidate& one) {
      return std::tuple(one.nodes, -static_cast<long>(one.job->held.size()), one.job->id);
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      if (order(candidates[i]) < order(candidates[best])) best = i;
    }
    return best;
  }
  bool redistributes() const override { return true; }
};

class Afs : public ClusterPolicy {
 public:
  std::optional<std::size_t> next(std::span<const Candidate> candidates) const override {
    std::size_t best = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      const bool shorter = left(candidates[i], 0) < left(candidates[best], 0);
      const Candidate& low = shorter ? candidates[i] : candidates[best];
      const Candidate& high = shorter ? candidates[best] : candidates[i];
      const bool low_wins =
          left(low, 0) / left(low, low.unit) + left(high, high.unit) / left(high, 0) > 2;
      if (low_wins == shorter) best = i;
    }
    return best;
  }
  bool redistributes() const override { return true; }

 private:
  // Jobs that do not know how long they will go on are all equally long, and longer than others.
  static double left(const Candidate& one, int more) {
    constexpr double kUnknown = 1e15;
    return one.job->work_left.value_or(kUnknown) / one.model->speed(one.nodes + more) + 1e-9;
  }
};

class Turbo : public ClusterPolicy {
 public:
  std::optional<std::size_t> next(std::span<const Candidate> candidates) const override {
    std::optional<std::size_t> best;
    double most = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& one = candidates[i];
      if (!worthwhile(one)) continue;
      const double now = one.model->speed(one.nodes);
      const double gain = (one.model->speed(one.nodes + one.unit) - now) / now / one.unit;
      if (!best || gain > most) {
        best = i;
        most = gain;
      }
    }
    return best;
  }

 protected:
  virtual bool worthwhile(const Candidate&) const { return true; }
};

class Economic : public Turbo {
 public:
  explicit Economic(const EconomicSettings& settings) : settings_(settings) {}

  // A little less is enough to keep a node: speeds are measured, and never twice the same.
  bool keeps(const Candidate& one) const override {
    const ElasticJob& job = *one.job;
    const auto said = pays(job.hints, job.speeds, one.nodes, one.unit, settings_.least_gain, 0.8);
    if (said) return *said;
    return one.model->gain(one.nodes, one.unit) >= 0.8 * settings_.least_gain;
  }

 protected:
  // One unit at a time, and the next when this size has been measured; at once to the size that the
  // job says pays.
  bool worthwhile(const Candidate& one) const override {
    const ElasticJob& job = *one.job;
    const auto held = static_cast<int>(job.held.size());
    if (!job.speeds.contains(held) || !settled(job)) return false;
    const auto said = pays(job.hints, job.speeds, one.nodes, one.unit, settings_.least_gain);
    if (said) return *said;
    return one.nodes == held && one.model->gain(one.nodes, one.unit) >= settings_.least_gain;
  }

 private:
  bool settled(const ElasticJob& job) const {
    const auto speed = job.speeds.find(static_cast<int>(job.held.size()));
    return !job.since ||
           (speed != job.speeds.end() && speed->second.measured - *job.since >= settings_.settle);
  }
  EconomicSettings settings_;
};

}  // namespace

bool ClusterPolicy::keeps(const Candidate&) const { return true; }

std::unique_ptr<ClusterPolicy> make_cluster_policy(const std::string& name,
                                                   const std::string& arguments) {
  if (name == "economic") return std::make_unique<Economic>(economic_settings(arguments));
  if (name != "fair" && name != "afs" && name != "turbo") {
    throw std::invalid_argument("unknown policy '" + name +
                                "': must be fair, afs, turbo or economic");
  }
  if (!arguments.empty()) {
    throw std::invalid_argument("the policy '" + name + "' takes no arguments, not '" + arguments +
                                "'");
  }
  if (name == "fair") return std::make_unique<Fair>();
  if (name == "afs") return std::make_unique<Afs>();
  return std::make_unique<Turbo>();
}

}  // namespace bellows::scheduler
