// SPDX-License-Identifier: Apache-2.0
// Optimizers with their state in named tensors that exist from the start, so that it can be
// stored, compared and sent to another rank like the parameters are.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/optimizer/parameter_groups.h"
#include "trainer/options/options.h"
#include "trainer/torch_headers.h"

namespace bellows::trainer {

/// What an optimizer divides the elements of a gradient by: those of `divisor`; nothing where that
/// is not defined.
struct Preconditioner {
  torch::Tensor divisor;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One update from the gradients. The mathematics are those of the torch.optim class of the same
  /// name with its default switches; each group has `rate` times its factor.
  ///
  /// `rate` may jump (--lr-rule). SGD with momentum is v = m v + g, p = p - rate v, where a jump
  /// takes effect on the whole of v at once. It is the same as v' = m (rate / last rate) v' + rate
  /// g, p = p - v', which is what Goyal et al. (2017, section 3, "momentum correction") ask of
  /// those who keep the rate in v'.
  void step(double rate) { step(std::span(&rate, 1)); }
  /// The same with a rate for each group; further groups have the last.
  virtual void step(std::span<const double> rates) = 0;
  /// "PARAMETER.SLOT" and the tensor, which may be written to.
  const NamedTensors& state() const { return state_; }
  /// Updates made (adam's bias correction goes by it).
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }
  /// For the gradient of a parameter, by the state before the next update.
  virtual Preconditioner preconditioner(std::size_t /*parameter*/) const { return {}; }
  /// False while the preconditioner still changes too much for gradients to be compared (as in
  /// AdaptDL, for Adam's first five updates).
  virtual bool gradients_compare() const { return true; }
  const std::vector<ParameterGroup>& groups() const { return groups_; }

 protected:
  Optimizer(const NamedTensors& parameters, std::vector<ParameterGroup> groups);
  void add(std::string name, torch::Tensor tensor) {
    state_.emplace_back(std::move(name), std::move(tensor));
  }
  /// A zero tensor for each parameter.
  std::vector<torch::Tensor> add_slot(const std::string& name);
  std::vector<torch::Tensor> gradients() const;
  /// Of a group, with its factor.
  double rate_of(std::size_t group, std::span<const double> rates) const {
    return rates[std::min(group, rates.size() - 1)] * groups_[group].factor;
  }
  /// Adds `decay` times the parameter to `gradients`, in the groups that decay.
  void add_decay(std::vector<torch::Tensor>& gradients, double decay) const;
  /// What a group has of `all`, which has a tensor for each parameter.
  static std::vector<torch::Tensor> of(const ParameterGroup& group,
                                       const std::vector<torch::Tensor>& all);

  // NOLINTBEGIN(cppcoreguidelines-non-private-member-variables-in-classes)
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;
  std::vector<ParameterGroup> groups_;
  std::int64_t updates_ = 0;
  // NOLINTEND(cppcoreguidelines-non-private-member-variables-in-classes)

 private:
  NamedTensors state_;
};

std::unique_ptr<Optimizer> make_optimizer(const Options& options, const NamedTensors& parameters);

/// Scales the gradients down to a common norm of at most `limit`; gives the norm before.
double clip_gradients(const NamedTensors& parameters, double limit);

}  // namespace bellows::trainer
