// SPDX-License-Identifier: Apache-2.0
// Medians and quartiles: measured times have outliers.
#pragma once

#include <cstdint>
#include <vector>

namespace bellows::report {

struct Weighted {
  double value;
  double weight;  // 1 or more
};

struct Spread {
  double median = 0;
  double low = 0, high = 0;  // quartiles
  double count = 0;          // sum of the weights
};

/// Of the values that are finite; all 0 when there is none.
Spread spread_of(std::vector<Weighted> values);

}  // namespace bellows::report
