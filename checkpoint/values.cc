// SPDX-License-Identifier: Apache-2.0
// Looking at tensors as numbers.
#include "checkpoint/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace bellows::checkpoint {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
T load(const Tensor& tensor, std::int64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes().data() + static_cast<std::size_t>(index) * sizeof value,
              sizeof value);
  return value;
}

// IEEE 754 binary16.
double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double mantissa = bits & 1023;
  double value = 0;
  if (exponent == 31)
    value = mantissa == 0 ? kInfinity : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(mantissa, -24);
  else
    value = std::ldexp(mantissa + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

// The upper half of a float.
double from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

double relative_to(double difference, double a, double b) {
  if (difference == 0) return 0;
  const double scale = std::max(std::abs(a), std::abs(b));
  return std::isfinite(difference) ? difference / scale : kInfinity;
}

void include(Difference& difference, double a, double b, Tolerance tolerance) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return;
  double distance = std::abs(a - b);
  if (std::isnan(distance)) distance = kInfinity;
  difference.absolute = std::max(difference.absolute, distance);
  difference.relative = std::max(difference.relative, relative_to(distance, a, b));
  const double allowed =
      tolerance.absolute + tolerance.relative * std::max(std::abs(a), std::abs(b));
  // Infinities agree with themselves only, whatever the tolerance.
  if (!std::isfinite(distance) || distance > allowed) difference.tolerated = false;
}

std::optional<Difference> compare(const std::string& path, const Tensor& a, const Tensor& b,
                                  Tolerance tolerance) {
  Difference difference{path, {}, 0, 0, false};
  if (a.element() != b.element()) {
    difference.what = "type " + std::string(element_name(a.element())) + " and " +
                      std::string(element_name(b.element()));
  } else if (a.shape() != b.shape()) {
    difference.what = "shape " + shape_text(a.shape()) + " and " + shape_text(b.shape());
  } else if (std::ranges::equal(a.bytes(), b.bytes())) {
    return std::nullopt;
  } else {
    // Zeros of both signs and NaNs of different bits are no difference once any is tolerated.
    difference.tolerated = tolerance.absolute > 0 || tolerance.relative > 0;
    for (std::int64_t i = 0; i < a.elements(); ++i)
      include(difference, value_at(a, i), value_at(b, i), tolerance);
  }
  return difference;
}

std::optional<Difference> compare(const std::string& path, const Attribute& a, const Attribute& b,
                                  Tolerance tolerance) {
  Difference difference{path, {}, 0, 0, false};
  if (a.index() != b.index()) {
    difference.what = "attributes of different types";
  } else if (const auto* integer = std::get_if<std::int64_t>(&a)) {
    const auto tensor = [](const std::int64_t& value) {
      return Tensor::view(Element::i64, {}, &value);
    };
    return compare(path, tensor(*integer), tensor(std::get<std::int64_t>(b)), tolerance);
  } else if (const auto* real = std::get_if<double>(&a)) {
    const auto tensor = [](const double& value) { return Tensor::view(Element::f64, {}, &value); };
    return compare(path, tensor(*real), tensor(std::get<double>(b)), tolerance);
  } else if (a == b) {
    return std::nullopt;
  } else {
    difference.what = "attributes of different values";
  }
  return difference;
}

template <class Map>
void compare_all(const Map& first, const Map& second, Tolerance tolerance,
                 const std::function<bool(std::string_view)>& wanted,
                 std::vector<Difference>& differences) {
  const std::size_t start = differences.size();
  for (const auto& [path, value] : first) {
    if (wanted && !wanted(path)) continue;
    const auto other = second.find(path);
    if (other == second.end())
      differences.push_back({path, "only in the first", 0, 0, false});
    else if (auto difference = compare(path, value, other->second, tolerance))
      differences.push_back(*std::move(difference));
  }
  for (const auto& [path, value] : second)
    if ((!wanted || wanted(path)) && !first.contains(path))
      differences.push_back({path, "only in the second", 0, 0, false});
  std::ranges::sort(differences.begin() + static_cast<std::ptrdiff_t>(start), differences.end(), {},
                    &Difference::path);
}

}  // namespace

double value_at(const Tensor& tensor, std::int64_t index) {
  switch (tensor.element()) {
    case Element::f16:
      return from_half(load<std::uint16_t>(tensor, index));
    case Element::bf16:
      return from_bfloat(load<std::uint16_t>(tensor, index));
    case Element::f32:
      return load<float>(tensor, index);
    case Element::f64:
      return load<double>(tensor, index);
    case Element::i8:
      return load<std::int8_t>(tensor, index);
    case Element::i16:
      return load<std::int16_t>(tensor, index);
    case Element::i32:
      return load<std::int32_t>(tensor, index);
    case Element::i64:
      return static_cast<double>(load<std::int64_t>(tensor, index));
    case Element::u8:
    case Element::boolean:
      break;
  }
  return load<std::uint8_t>(tensor, index);
}

Summary summarize(const Tensor& tensor) {
  Summary summary;
  double sum = 0;
  double squares = 0;
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double value = value_at(tensor, i);
    if (!std::isfinite(value)) continue;
    ++finite;
    sum += value;
    squares += value * value;
    summary.minimum = std::min(summary.minimum.value_or(value), value);
    summary.maximum = std::max(summary.maximum.value_or(value), value);
  }
  summary.norm = std::sqrt(squares);
  if (finite > 0) summary.mean = sum / static_cast<double>(finite);
  summary.not_finite = tensor.elements() - finite;
  return summary;
}

std::vector<Difference> compare(const State& first, const State& second, Tolerance tolerance,
                                const std::function<bool(std::string_view)>& wanted) {
  std::vector<Difference> differences;
  compare_all(first.tensors(), second.tensors(), tolerance, wanted, differences);
  compare_all(first.attributes(), second.attributes(), tolerance, wanted, differences);
  return differences;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape)
    text += (text.size() > 1 ? "," : "") + std::to_string(extent);
  return text + "]";
}

}  // namespace bellows::checkpoint
