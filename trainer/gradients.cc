// SPDX-License-Identifier: Apache-2.0
#include "trainer/gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mpi_elastic/timeline.h"
#include "trainer/mpi_backend.h"

namespace bellows::trainer {

namespace {

std::vector<torch::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<torch::Tensor> tensors;
  tensors.reserve(named.size());
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

using Buckets = std::vector<std::vector<std::size_t>>;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Names = std::unordered_map<std::size_t, std::string>;

Names names_of(const NamedTensors& named) {
  Names names;
  for (std::size_t i = 0; i < named.size(); ++i) names[i] = named[i].first;
  return names;
}

// With a hook the Reducer leaves out its division by the number of ranks.
class SumHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::Backend>> {
 public:
  SumHook(c10::intrusive_ptr<c10d::Backend> backend,
          std::shared_ptr<std::function<void()>> complete,
          std::shared_ptr<std::chrono::steady_clock::time_point> given,
          std::shared_ptr<std::size_t> handed_over)
      : CppCommHookInterface(std::move(backend)),
        complete_(std::move(complete)),
        given_(std::move(given)),
        handed_over_(std::move(handed_over)) {}
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<at::Tensor> tensors{bucket.getBufferRef()};
    *given_ = std::chrono::steady_clock::now();
    ++*handed_over_;
    if (bucket.isLast() && *complete_) (*complete_)();
    if (Timeline::on()) {
      const CollectiveName name(fmt::format("bucket {}", bucket.getIndex()));
      return state_->allreduce(tensors)->getFuture();
    }
    return state_->allreduce(tensors)->getFuture();
  }

 private:
  std::shared_ptr<std::function<void()>> complete_;
  std::shared_ptr<std::chrono::steady_clock::time_point> given_;
  std::shared_ptr<std::size_t> handed_over_;
};

}  // namespace

// The base class takes other arguments in other versions of libtorch.
class GradientReducer::FixedReducer : public c10d::Reducer {
 public:
  template <typename... Arguments>
  explicit FixedReducer(std::in_place_t, Arguments&&... arguments)
      : Reducer(std::forward<Arguments>(arguments)...) {
    has_rebuilt_bucket_ = true;
  }

  static std::unique_ptr<FixedReducer> make(const NamedTensors& parameters, Buckets buckets,
                                            Group group, std::int64_t bucket_bytes) {
    return make_from<c10d::Reducer>(parameters, std::move(buckets), std::move(group), bucket_bytes);
  }

 private:
  // A template, so that only the call which this libtorch has is compiled.
  template <typename Base>
  static std::unique_ptr<FixedReducer> make_from(const NamedTensors& parameters, Buckets buckets,
                                                 Group group, std::int64_t bucket_bytes) {
    constexpr bool kFindUnused = false, kViews = true;
    std::vector<bool> sparse(parameters.size(), false);
    if constexpr (std::is_constructible_v<Base, std::vector<torch::Tensor>, Buckets,
                                          std::vector<std::size_t>, Group, std::vector<bool>,
                                          std::int64_t, bool, bool, Names, std::int64_t>) {
      return std::make_unique<FixedReducer>(
          std::in_place, tensors_of(parameters), std::move(buckets), std::vector<std::size_t>{},
          std::move(group), std::move(sparse), bucket_bytes, kFindUnused, kViews,
          names_of(parameters), bucket_bytes);
    } else {  // seen in 2.15: no limits by bucket, and switches that are left off
      return std::make_unique<FixedReducer>(
          std::in_place, tensors_of(parameters), std::move(buckets), std::move(group),
          std::move(sparse), bucket_bytes, kFindUnused, kViews, names_of(parameters), bucket_bytes,
          false, false, std::vector<std::int64_t>{});
    }
  }
};

GradientReducer::GradientReducer(const NamedTensors& parameters,
                                 c10::intrusive_ptr<c10d::Backend> backend,
                                 std::int64_t bucket_bytes) {
  auto buckets = plan_buckets(parameters, bucket_bytes);
  buckets_ = buckets.size();
  auto group = c10::make_intrusive<c10d::ProcessGroup>(backend->getRank(), backend->getSize());
  reducer_ = FixedReducer::make(parameters, std::move(buckets), std::move(group), bucket_bytes);
  reducer_->register_comm_hook(
      std::make_unique<SumHook>(std::move(backend), complete_, given_, handed_over_));
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::prepare(std::function<void()> complete) {
  *complete_ = std::move(complete);
  *handed_over_ = 0;
  reducer_->prepare_for_backward({});
}

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
