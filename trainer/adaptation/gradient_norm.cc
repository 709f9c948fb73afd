// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "trainer/adaptation/gradient_noise.h"

namespace bellows::trainer {

namespace {

// Products that are added up in single precision, in each of kLanes sums.
constexpr std::int64_t kPiece = 8192;
constexpr std::int64_t kWidth = 4, kVectors = 4, kLanes = kVectors * kWidth;
using Vector __attribute__((vector_size(16))) = float;

Vector load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

/// Where there is nothing to divide by.
struct One {
  static Vector apply(Vector value, std::int64_t) { return value; }
  static double apply(float value, std::int64_t) { return value; }
};
struct Divisor {
  const float* values;
  Vector apply(Vector value, std::int64_t at) const { return value / load(values + at); }
  double apply(float value, std::int64_t at) const {
    return static_cast<double>(value) / static_cast<double>(values[at]);
  }
};

/// Each lane is a sum of its own, so that the order of the additions is in the source, and not up
/// to a compiler or a processor.
template <typename By>
double sum_of_products(const float* a, const float* b, By by, std::int64_t begin,
                       std::int64_t end) {
  std::array<Vector, kVectors> sums{};
  std::int64_t at = begin;
  for (; at + kLanes <= end; at += kLanes)
    for (std::int64_t i = 0; i < kVectors; ++i) {
      const std::int64_t here = at + kWidth * i;
      const Vector x = by.apply(load(a + here), here);
      sums[static_cast<std::size_t>(i)] += x * (a == b ? x : by.apply(load(b + here), here));
    }
  double total = 0;
  for (const Vector& vector : sums)
    for (std::int64_t i = 0; i < kWidth; ++i) total += static_cast<double>(vector[i]);
  for (; at < end; ++at) total += by.apply(a[at], at) * by.apply(b[at], at);
  return total;
}

template <typename By>
double sum_of_pieces(const float* a, const float* b, By by, std::int64_t count) {
  double total = 0;
  for (std::int64_t at = 0; at < count; at += kPiece)
    total += sum_of_products(a, b, by, at, std::min(at + kPiece, count));
  return total;
}

bool is_plain(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == torch::kFloat;
}

/// For any device and type.
double generic(torch::Tensor a, torch::Tensor b, const Preconditioner& by) {
  if (by.divisor.defined()) {
    a = a / by.divisor;
    b = b / by.divisor;
  }
  return (a.to(torch::kFloat64) * b).sum().item<double>();
}

torch::Tensor flat(const torch::Tensor& tensor) { return tensor.detach().contiguous().view({-1}); }

}  // namespace

double inner_product(const torch::Tensor& first, const torch::Tensor& second,
                     const Preconditioner& by) {
  const torch::NoGradGuard no_grad;
  if (!is_plain(first) || !is_plain(second)) return generic(first, second, by);
  const torch::Tensor a = flat(first);
  const torch::Tensor b = first.is_same(second) ? a : flat(second);
  const auto* x = a.const_data_ptr<float>();
  const auto* y = b.const_data_ptr<float>();
  if (!by.divisor.defined()) return sum_of_pieces(x, y, One{}, a.numel());
  const torch::Tensor divisor = flat(by.divisor);
  return sum_of_pieces(x, y, Divisor{divisor.const_data_ptr<float>()}, a.numel());
}

namespace {

/// The group of each parameter.
std::vector<std::size_t> noise_groups(std::size_t parameters, const Optimizer& optimizer) {
  std::vector<std::size_t> groups(parameters, 0);
  for (std::size_t g = 0; g < optimizer.groups().size(); ++g)
    for (const std::size_t i : optimizer.groups()[g].members)
      groups[i] = std::min(g, kNoiseGroups - 1);
  return groups;
}

std::size_t count_of(const Optimizer& optimizer) {
  return std::min(optimizer.groups().size(), kNoiseGroups);
}

}  // namespace

std::vector<double> inner_products(const std::vector<torch::Tensor>& a,
                                   const std::vector<torch::Tensor>& b,
                                   const Optimizer& optimizer) {
  std::vector<double> totals(count_of(optimizer), 0);
  const std::vector<std::size_t> groups = noise_groups(a.size(), optimizer);
  for (std::size_t i = 0; i < a.size(); ++i)
    totals[groups[i]] += inner_product(a[i], b[i], optimizer.preconditioner(i));
  return totals;
}

PassNorms::PassNorms(const NamedTensors& parameters, const Optimizer& optimizer) {
  sums_->totals.resize(count_of(optimizer), 0);
  const std::vector<std::size_t> groups = noise_groups(parameters.size(), optimizer);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].second.register_hook(
        [sums = sums_, &optimizer, i, group = groups[i]](const torch::Tensor& added) {
          if (sums->weight > 0)
            sums->totals[group] +=
                sums->weight * inner_product(added, added, optimizer.preconditioner(i));
        });
}

PassNorms::~PassNorms() { sums_->weight = 0; }

}  // namespace bellows::trainer
