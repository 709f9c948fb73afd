// SPDX-License-Identifier: Apache-2.0
// Looking at tensors as numbers, whatever their type: summaries and comparisons.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/state.h"

namespace bellows::checkpoint {

/// The element at a flat index, 0 <= index < elements(). Exact for all types but i64 beyond 2^53.
double value_at(const Tensor& tensor, std::int64_t index);

/// Over the finite elements; nullopt (minimum, maximum, mean) when there are none.
struct Summary {
  double norm = 0;  ///< Euclidean
  std::optional<double> minimum, maximum, mean;
  std::int64_t not_finite = 0;  ///< elements that are infinite or not a number
};
Summary summarize(const Tensor& tensor);

/// Elements a and b agree when |a - b| <= absolute + relative * max(|a|, |b|), or bit for bit.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

/// How two things of the same path differ.
struct Difference {
  std::string path;
  std::string what;        ///< "shape [2] and [3]", "only in the first"; empty: by value
  double absolute = 0;     ///< largest |a - b|; infinite for NaN against a number
  double relative = 0;     ///< largest |a - b| / max(|a|, |b|)
  bool tolerated = false;  ///< no element is beyond the tolerance
};

/// Tensors and attributes of both states whose path `wanted` accepts, sorted by kind and path;
/// those equal bit for bit are left out. Strings and booleans differ or do not; integers and
/// doubles as tensors do.
std::vector<Difference> compare(const State& first, const State& second, Tolerance tolerance,
                                const std::function<bool(std::string_view)>& wanted);

/// "[3,5,2]"
std::string shape_text(const Shape& shape);

}  // namespace bellows::checkpoint
