// SPDX-License-Identifier: Apache-2.0
// Square norms of gradients, as gradient noise needs them: in one pass over memory, with the same
// bits on every processor, and as the optimizer sees them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "trainer/optimizer/optimizer.h"

namespace bellows::trainer {

/// Inner product of two gradients of a parameter, each divided by what Adam divides by (the square
/// root of the corrected second moment, plus epsilon), or as they are with SGD. On the CPU in
/// single precision the sums of some thousand products are added up in double precision.
double inner_product(const torch::Tensor& a, const torch::Tensor& b,
                     const Preconditioner& preconditioner);

/// The same over all parameters, by group of the optimizer as gradient noise tells them apart.
std::vector<double> inner_products(const std::vector<torch::Tensor>& a,
                                   const std::vector<torch::Tensor>& b, const Optimizer& optimizer);

/// Measures what each backward pass adds to the gradients, parameter by parameter as it arrives.
class PassNorms {
 public:
  /// `optimizer` must outlive the parameters.
  PassNorms(const NamedTensors& parameters, const Optimizer& optimizer);
  PassNorms(const PassNorms&) = delete;
  PassNorms& operator=(const PassNorms&) = delete;
  ~PassNorms();

  /// Whether the passes of the next step are measured (they are until it is said otherwise).
  void set_active(bool active) {
    active_ = active;
    spoilt_ = false;
  }
  bool active() const { return active_; }
  void reset() { std::fill(sums_->totals.begin(), sums_->totals.end(), 0); }
  /// What the square norm of the next pass counts; 0: is not measured.
  void next_pass(double weight) { sums_->weight = active_ ? weight : 0; }
  /// Of all passes since reset(), by group.
  std::vector<double> sums() const {
    if (!spoilt_) return sums_->totals;
    return std::vector<double>(sums_->totals.size(), std::numeric_limits<double>::quiet_NaN());
  }
  /// The passes of this step are not those that were planned, so their norms say nothing: sums()
  /// are no numbers until set_active().
  void spoil() { spoilt_ = true; }

 private:
  struct Sums {
    double weight = 0;
    std::vector<double> totals;
  };
  bool active_ = true;
  bool spoilt_ = false;
  std::shared_ptr<Sums> sums_ = std::make_shared<Sums>();
};

}  // namespace bellows::trainer
