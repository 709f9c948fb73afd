// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/statistics.h"

#include <algorithm>
#include <cmath>

namespace bellows::report {

namespace {

/// As if each value were there as often as its weight says, the k-th at (k - 1/2) / total, and
/// linear in between (Hazen 1914).
double quantile(const std::vector<Weighted>& sorted, double total, double share) {
  const double wanted = share * total;
  double before = 0;
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    before += sorted[i].weight;
    if (wanted <= before - 0.5) return sorted[i].value;
    if (wanted < before + 0.5)
      return sorted[i].value + (wanted - before + 0.5) * (sorted[i + 1].value - sorted[i].value);
  }
  return sorted.back().value;
}

}  // namespace

Spread spread_of(std::vector<Weighted> values) {
  std::erase_if(values, [](const Weighted& v) { return !std::isfinite(v.value) || v.weight <= 0; });
  if (values.empty()) return {};
  std::ranges::sort(values, {}, &Weighted::value);
  double total = 0;
  for (const Weighted& value : values) total += value.weight;
  return {quantile(values, total, 0.5), quantile(values, total, 0.25),
          quantile(values, total, 0.75), total};
}

}  // namespace bellows::report
