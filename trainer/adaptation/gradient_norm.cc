// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace bellows::trainer {

namespace {

// Fits into the cache of a core with all that is made of it.
constexpr std::int64_t kPiece = 8192;

/// Each lane is a sum of its own, so that the order of the additions is in the source, and not up
/// to a compiler or a processor.
double sum_of_products(const float* a, const float* b, std::int64_t count) {
  using Lanes __attribute__((vector_size(16))) = float;
  constexpr std::int64_t kWidth = 4, kLanes = 4 * kWidth;
  std::array<Lanes, 4> sums{};
  std::int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes)
    for (std::size_t i = 0; i < sums.size(); ++i) {
      Lanes x, y;
      std::memcpy(&x, a + at + kWidth * static_cast<std::int64_t>(i), sizeof x);
      std::memcpy(&y, b + at + kWidth * static_cast<std::int64_t>(i), sizeof y);
      sums[i] += x * y;
    }
  double total = 0;
  for (const Lanes& lanes : sums)
    for (std::int64_t i = 0; i < kWidth; ++i) total += static_cast<double>(lanes[i]);
  for (; at < count; ++at) total += static_cast<double>(a[at]) * static_cast<double>(b[at]);
  return total;
}

bool is_plain(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == torch::kFloat;
}

/// For any device and type.
double generic(torch::Tensor a, torch::Tensor b, const Preconditioner& by) {
  if (by.square.defined()) {
    const torch::Tensor scale = by.square.sqrt().div_(by.correction).add_(by.epsilon);
    a = a / scale;
    b = b / scale;
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
  double total = 0;
  if (!by.square.defined()) {
    for (std::int64_t at = 0; at < a.numel(); at += kPiece)
      total += sum_of_products(x + at, y + at, std::min(kPiece, a.numel() - at));
    return total;
  }
  const torch::Tensor square = flat(by.square);
  for (std::int64_t at = 0; at < a.numel(); at += kPiece) {
    const std::int64_t end = std::min(at + kPiece, a.numel());
    const torch::Tensor scale =
        square.slice(0, at, end).sqrt().div_(by.correction).add_(by.epsilon);
    const torch::Tensor u = a.slice(0, at, end) / scale;
    const torch::Tensor v = x == y ? u : b.slice(0, at, end) / scale;
    total += sum_of_products(u.const_data_ptr<float>(), v.const_data_ptr<float>(), end - at);
  }
  return total;
}

double inner_product(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b,
                     const Optimizer& optimizer) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    total += inner_product(a[i], b[i], optimizer.preconditioner(i));
  return total;
}

PassNorms::PassNorms(const NamedTensors& parameters, const Optimizer& optimizer) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].second.register_hook([sums = sums_, &optimizer, i](const torch::Tensor& added) {
      if (sums->weight > 0)
        sums->total += sums->weight * inner_product(added, added, optimizer.preconditioner(i));
    });
}

PassNorms::~PassNorms() { sums_->weight = 0; }

}  // namespace bellows::trainer
