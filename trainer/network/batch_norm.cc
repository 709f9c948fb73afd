// SPDX-License-Identifier: Apache-2.0
#include "trainer/network/batch_norm.h"

#include <utility>
#include <vector>

#include "trainer/team/mpi_backend.h"

namespace bellows::trainer {

namespace {

using Team = c10::intrusive_ptr<c10d::Backend>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void sum_over(const Team& team, torch::Tensor tensor) {
  const CollectiveName name("batch statistics");
  std::vector<at::Tensor> tensors{std::move(tensor)};
  team->allreduce(tensors)->wait();
}

/// y = weight (x - mean) / sqrt(variance + epsilon) + bias, where mean and variance depend on x.
///
/// With the gradient dy of the loss to y, h = (x - mean) / sqrt(variance + epsilon), and sums over
/// the n values of a channel on all ranks,
///   dx = weight / sqrt(variance + epsilon) (dy - sum(dy) / n - h sum(dy h) / n).
/// The gradients of weight and bias, sum(dy h) and sum(dy), are of this rank's values: gradients
/// are summed over the ranks where those of all parameters are.
class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& mean, const torch::Tensor& variance,
                               double epsilon, double count, bool counts, const Team& team) {
    context->save_for_backward({x, weight, mean, variance});
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["count"] = count;
    context->saved_data["counts"] = counts;
    context->saved_data["team"] = c10::IValue::make_capsule(team);
    return std::get<0>(at::native_batch_norm(x, weight, bias, mean, variance, false, 0, epsilon));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor& x = saved[0];
    const torch::Tensor& weight = saved[1];
    const torch::Tensor& mean = saved[2];
    const torch::Tensor& variance = saved[3];
    const double epsilon = context->saved_data["epsilon"].toDouble();
    const double count = context->saved_data["count"].toDouble();
    const auto team =
        c10::static_intrusive_pointer_cast<c10d::Backend>(context->saved_data["team"].toCapsule());
    const torch::Tensor dy = gradients[0].contiguous(x.suggest_memory_format());

    const auto own = at::native_batch_norm_backward(dy, x, weight, mean, variance, {}, {}, false,
                                                    epsilon, {false, true, true});
    const torch::Tensor& of_weight = std::get<1>(own);
    const torch::Tensor& of_bias = std::get<2>(own);
    const std::int64_t channels = x.size(1);
    torch::Tensor sums = at::cat({of_bias, of_weight}).to(torch::kFloat64);
    sum_over(team, sums);
    sums = (sums / count).to(x.scalar_type());

    const auto by_channel = [&](const torch::Tensor& values) {
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
      sizes[1] = channels;
      return values.view(sizes);
    };
    const torch::Tensor scale = at::rsqrt(variance + epsilon);
    torch::Tensor dx = dy;
    // What does not count in the statistics has no effect by them.
    if (context->saved_data["counts"].toBool()) {
      dx = (x - by_channel(mean)).mul_(by_channel(scale * sums.slice(0, channels)));
      dx.add_(by_channel(sums.slice(0, 0, channels))).neg_().add_(dy);
    }
    return {dx * by_channel(weight * scale), of_weight, of_bias, {}, {}, {}, {}, {}, {}};
  }
};

}  // namespace

BatchNormImpl::BatchNormImpl(std::int64_t channels, std::shared_ptr<const BatchScope> scope)
    : torch::nn::BatchNorm2dImpl(channels), scope_(std::move(scope)) {}

torch::Tensor BatchNormImpl::by_running_statistics(const torch::Tensor& x) const {
  return at::batch_norm(x, weight, bias, running_mean, running_var, false, 0, options.eps(), true);
}

torch::Tensor BatchNormImpl::forward(const torch::Tensor& x) {
  if (!is_training()) return torch::nn::BatchNorm2dImpl::forward(x);
  if (scope_->team && scope_->team->getSize() > 1) return synchronised(x);
  if (!scope_->counts || x.numel() / x.size(1) < 2) return by_running_statistics(x);
  return torch::nn::BatchNorm2dImpl::forward(x);
}

void BatchNormImpl::update_running_statistics(const torch::Tensor& mean,
                                              const torch::Tensor& variance, double count) {
  num_batches_tracked.add_(1);
  const double share = options.momentum()
                           ? *options.momentum()
                           : 1 / static_cast<double>(num_batches_tracked.item<std::int64_t>());
  running_mean.mul_(1 - share).add_(mean, share);
  running_var.mul_(1 - share).add_(variance, share * count / (count - 1));
}

torch::Tensor BatchNormImpl::synchronised(const torch::Tensor& x) {
  const std::int64_t channels = x.size(1);
  torch::Tensor mean;
  torch::Tensor variance;
  double count = 0;
  {
    const torch::NoGradGuard no_grad;
    // By channel the sum and the sum of squares, and how many values: in double precision, so that
    // their difference is good enough.
    torch::Tensor sums =
        torch::zeros({2 * channels + 1}, x.options().dtype(torch::kFloat64).requires_grad(false));
    if (scope_->counts) {
      const auto values = static_cast<double>(x.numel() / channels);
      const auto own = at::batch_norm_update_stats(x.detach(), {}, {}, 0);
      const torch::Tensor own_mean = std::get<0>(own).to(torch::kFloat64);
      const torch::Tensor own_variance = std::get<1>(own).to(torch::kFloat64);
      sums.slice(0, 0, channels).copy_(own_mean * values);
      sums.slice(0, channels, 2 * channels).copy_((own_variance + own_mean.square()) * values);
      sums[2 * channels].fill_(values);
    }
    sum_over(scope_->team, sums);
    count = sums[2 * channels].item<double>();
    if (count >= 2) {
      const torch::Tensor wide = sums.slice(0, 0, channels) / count;
      mean = wide.to(running_mean.scalar_type());
      variance = (sums.slice(0, channels, 2 * channels) / count - wide.square())
                     .clamp_min(0)
                     .to(running_var.scalar_type());
      update_running_statistics(mean, variance, count);
    }
  }
  if (count < 2) return by_running_statistics(x);
  return Normalise::apply(x, weight, bias, mean, variance, options.eps(), count, scope_->counts,
                          scope_->team);
}

}  // namespace bellows::trainer
