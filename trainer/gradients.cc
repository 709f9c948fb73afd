// SPDX-License-Identifier: Apache-2.0
#include "trainer/gradients.h"

#include <algorithm>
#include <utility>

namespace bellows::trainer {

namespace {

std::vector<torch::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<torch::Tensor> tensors;
  tensors.reserve(named.size());
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

std::unordered_map<std::size_t, std::string> names_of(const NamedTensors& named) {
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < named.size(); ++i) names[i] = named[i].first;
  return names;
}

// With a hook the Reducer leaves out its division by the number of ranks.
class SumHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::Backend>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<at::Tensor> tensors{bucket.getBufferRef()};
    return state_->allreduce(tensors)->getFuture();
  }
};

}  // namespace

class GradientReducer::FixedReducer : public c10d::Reducer {
 public:
  FixedReducer(const NamedTensors& parameters, std::vector<std::vector<std::size_t>> buckets,
               c10::intrusive_ptr<c10d::ProcessGroup> group, std::int64_t bucket_bytes)
      : Reducer(tensors_of(parameters), std::move(buckets), {}, std::move(group),
                std::vector<bool>(parameters.size(), false), bucket_bytes,
                /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
                names_of(parameters), bucket_bytes) {
    has_rebuilt_bucket_ = true;
  }
};

GradientReducer::GradientReducer(const NamedTensors& parameters,
                                 c10::intrusive_ptr<c10d::Backend> backend,
                                 std::int64_t bucket_bytes) {
  auto buckets = plan_buckets(parameters, bucket_bytes);
  buckets_ = buckets.size();
  auto group = c10::make_intrusive<c10d::ProcessGroup>(backend->getRank(), backend->getSize());
  reducer_ = std::make_unique<FixedReducer>(parameters, std::move(buckets), std::move(group),
                                            bucket_bytes);
  reducer_->register_comm_hook(std::make_unique<SumHook>(std::move(backend)));
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::prepare() { reducer_->prepare_for_backward({}); }

std::vector<std::vector<std::size_t>> plan_buckets(const NamedTensors& parameters,
                                                   std::int64_t bucket_bytes) {
  constexpr std::int64_t kFirst = std::int64_t{1} << 20;
  std::vector<std::vector<std::size_t>> buckets;
  std::int64_t room = 0;
  c10::ScalarType type = c10::ScalarType::Undefined;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const torch::Tensor& parameter = parameters[i].second;
    if (room <= 0 || parameter.scalar_type() != type) {
      room = buckets.empty() ? std::min(kFirst, bucket_bytes) : bucket_bytes;
      type = parameter.scalar_type();
      buckets.emplace_back();
    }
    buckets.back().push_back(i);
    room -= static_cast<std::int64_t>(parameter.nbytes());
  }
  return buckets;
}

}  // namespace bellows::trainer
