// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "mpi_elastic/timeline.h"
#include "trainer/team/mpi_backend.h"

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

}  // namespace

// With a hook the Reducer leaves out its division by the number of ranks.
class GradientReducer::SumHook
    : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::Backend>> {
 public:
  SumHook(c10::intrusive_ptr<c10d::Backend> backend,
          std::shared_ptr<std::function<void()>> complete,
          std::shared_ptr<std::chrono::steady_clock::time_point> given,
          std::shared_ptr<std::vector<Given>> begun)
      : CppCommHookInterface(std::move(backend)),
        complete_(std::move(complete)),
        given_(std::move(given)),
        begun_(std::move(begun)) {}
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<at::Tensor> tensors{bucket.getBufferRef()};
    *given_ = std::chrono::steady_clock::now();
    if (bucket.isLast() && *complete_) (*complete_)();
    std::optional<CollectiveName> name;
    if (Timeline::on()) name.emplace(fmt::format("bucket {}", bucket.getIndex()));
    begun_->push_back({tensors.front(), state_->allreduce(tensors)});
    return begun_->back().work->getFuture();
  }

 private:
  std::shared_ptr<std::function<void()>> complete_;
  std::shared_ptr<std::chrono::steady_clock::time_point> given_;
  std::shared_ptr<std::vector<Given>> begun_;
};

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
                                 std::int64_t bucket_bytes)
    : parameters_(parameters),
      backend_(std::move(backend)),
      bucket_bytes_(bucket_bytes),
      buckets_(plan_buckets(parameters, bucket_bytes)) {
  start();
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::start() {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(backend_->getRank(), backend_->getSize());
  reducer_ = FixedReducer::make(parameters_, buckets_, std::move(group), bucket_bytes_);
  reducer_->register_comm_hook(std::make_unique<SumHook>(backend_, complete_, given_, begun_));
}

void GradientReducer::prepare(std::function<void()> complete) {
  if (!reducer_) start();
  *complete_ = std::move(complete);
  begun_->clear();
  reducer_->prepare_for_backward({});
}

// A Reducer in the middle of a pass cannot be led out of it.
void GradientReducer::interrupt() { reducer_.reset(); }

/// The gradients in a bucket's memory, laid out as the Reducer does it: the other ranks use that.
std::vector<torch::Tensor> GradientReducer::views(std::size_t bucket,
                                                  const torch::Tensor& flat) const {
  std::vector<torch::Tensor> gradients;
  std::int64_t at = 0;
  for (const std::size_t i : buckets_[bucket]) {
    const torch::Tensor& parameter = parameters_[i].second;
    gradients.push_back(parameter.is_non_overlapping_and_dense()
                            ? flat.as_strided(parameter.sizes(), parameter.strides(), at)
                            : flat.slice(0, at, at + parameter.numel()).view(parameter.sizes()));
    at += parameter.numel();
  }
  return gradients;
}

void GradientReducer::give(std::size_t bucket) {
  const std::vector<std::size_t>& members = buckets_[bucket];
  std::int64_t length = 0;
  for (const std::size_t i : members) length += parameters_[i].second.numel();
  torch::Tensor flat =
      torch::empty({length}, parameters_[members.front()].second.options().requires_grad(false));
  const auto gradients = views(bucket, flat);
  for (std::size_t i = 0; i < members.size(); ++i)
    gradients[i].copy_(parameters_[members[i]].second.grad());
  *given_ = std::chrono::steady_clock::now();
  if (bucket + 1 == buckets_.size() && *complete_) (*complete_)();
  std::vector<at::Tensor> tensors{flat};
  begun_->push_back({flat, backend_->allreduce(tensors)});
}

void GradientReducer::finish() {
  if (reducer_) return;
  const torch::NoGradGuard no_grad;
  while (begun_->size() < buckets_.size()) give(begun_->size());
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    (*begun_)[bucket].work->wait();
    const auto sums = views(bucket, (*begun_)[bucket].flat);
    for (std::size_t i = 0; i < sums.size(); ++i)
      parameters_[buckets_[bucket][i]].second.mutable_grad() = sums[i];
  }
  begun_->clear();
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
