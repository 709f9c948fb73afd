// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace bellows::trainer {

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// The time of a step with shares of these weights.
double step_time(const std::vector<double>& weights, const std::vector<double>& seconds,
                 std::uint64_t batch) {
  double longest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Range own = weighted_share({0, batch}, static_cast<int>(i), weights);
    longest = std::max(longest, static_cast<double>(own.size()) * seconds[i]);
  }
  return longest;
}

std::vector<double> balanced(const std::vector<double>& seconds) {
  const auto ranks = static_cast<double>(seconds.size());
  double speeds = 0;
  for (const double one : seconds) speeds += 1 / one;
  std::vector<double> weights;
  weights.reserve(seconds.size());
  for (const double one : seconds)
    weights.push_back(
        std::clamp(1 / one / speeds, 1 / (Shares::kMost * ranks), Shares::kMost / ranks));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// Unknown ones are the mean of the others. False when nothing is known.
bool complete(std::vector<double>& seconds) {
  double sum = 0, count = 0;
  for (const double one : seconds)
    if (one > 0) {
      sum += one;
      ++count;
    }
  if (count == 0) return false;
  for (double& one : seconds)
    if (!(one > 0)) one = sum / count;
  return true;
}

}  // namespace

const std::vector<std::string>& share_names() {
  static const std::vector<std::string> names{"equal", "speed"};
  return names;
}

bool times_ranks(const Options& options) {
  return options.shares == "speed" || options.drop_stragglers;
}

Range weighted_share(Range whole, int rank, std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double before = 0;
  for (int i = 0; i < rank; ++i) before += weights[static_cast<std::size_t>(i)];
  const auto start = [&](double part) {
    const auto at = std::llround(part / sum * static_cast<double>(whole.size()));
    return whole.begin + std::min<std::uint64_t>(static_cast<std::uint64_t>(at), whole.size());
  };
  const bool last = static_cast<std::size_t>(rank) + 1 == weights.size();
  return {start(before),
          last ? whole.end : start(before + weights[static_cast<std::size_t>(rank)])};
}

Shares::Shares(bool balance, std::vector<double> seconds)
    : balance_(balance),
      seconds_(std::move(seconds)),
      weights_(seconds_.size(), 1.0 / static_cast<double>(seconds_.size())),
      window_(seconds_.size()),
      slow_windows_(seconds_.size(), 0) {
  std::vector<double> known = seconds_;
  if (balance_ && complete(known)) weights_ = balanced(known);
}

bool Shares::add(std::span<const double> seconds, std::uint64_t batch) {
  for (std::size_t rank = 0; rank < window_.size(); ++rank)
    if (seconds[rank] > 0 && std::isfinite(seconds[rank])) window_[rank].push_back(seconds[rank]);
  ++steps_;
  if (steps_ == length_) {
    end_window();
    const double worth = 1 + kChance / std::sqrt(static_cast<double>(length_));
    length_ = std::min(2 * length_, kLongestWindow);
    return balance_ && rebalance(seconds_, worth, batch);
  }
  return balance_ && steps_ % kWindow == 0 && rebalance(medians(kWindow), kPlain, batch);
}

/// Of each rank's last steps of the window; 0 where it made none.
std::vector<double> Shares::medians(std::size_t last) const {
  std::vector<double> all;
  for (const std::vector<double>& steps : window_) {
    const auto count = static_cast<std::ptrdiff_t>(std::min(last, steps.size()));
    all.push_back(median({steps.end() - count, steps.end()}));
  }
  return all;
}

void Shares::end_window() {
  const std::vector<double> now = medians(steps_);
  for (std::size_t rank = 0; rank < window_.size(); ++rank) {
    if (now[rank] > 0) seconds_[rank] = now[rank];
    window_[rank].clear();
  }
  steps_ = 0;
  for (std::size_t rank = 0; rank < window_.size(); ++rank) {
    const bool slow = slowness(static_cast<int>(rank)) > kStraggles;
    slow_windows_[rank] = slow ? slow_windows_[rank] + 1 : 0;
  }
}

bool Shares::rebalance(std::vector<double> seconds, double worth, std::uint64_t batch) {
  if (!complete(seconds)) return false;
  const std::vector<double> better = balanced(seconds);
  const double gain = step_time(weights_, seconds, batch) / step_time(better, seconds, batch);
  if (!(gain > worth)) return false;
  if (gain > kPlain) length_ = kWindow;
  weights_ = better;
  steps_ = 0;
  for (std::vector<double>& steps : window_) steps.clear();
  return true;
}

double Shares::slowness(int rank) const {
  const auto own = static_cast<std::size_t>(rank);
  std::vector<double> others;
  for (std::size_t other = 0; other < seconds_.size(); ++other)
    if (other != own && seconds_[other] > 0) others.push_back(seconds_[other]);
  return others.empty() ? 0 : seconds_[own] / median(others);
}

int Shares::straggler() const {
  int slowest = -1;
  for (std::size_t rank = 0; rank < slow_windows_.size(); ++rank)
    if (slow_windows_[rank] >= kPersistent &&
        (slowest < 0 || seconds_[rank] > seconds_[static_cast<std::size_t>(slowest)]))
      slowest = static_cast<int>(rank);
  return slowest;
}

}  // namespace bellows::trainer
