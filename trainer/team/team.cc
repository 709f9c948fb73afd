// SPDX-License-Identifier: Apache-2.0
#include "trainer/team/team.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "trainer/errors.h"
#include "trainer/team/device.h"
#include "trainer/team/place.h"

namespace bellows::trainer {

Team::Team(const World& world, const torch::Device& device)
    : rank_(world.rank()),
      size_(world.size()),
      control_(c10::make_intrusive<MpiBackend>(world.communicator())),
      backend_(device.is_cpu() ? c10::intrusive_ptr<c10d::Backend>(control_)
                               : make_cuda_backend(rank_, size_, device, [this](std::string s) {
                                   return broadcast(std::move(s));
                                 })) {}

Pending Team::sum(torch::Tensor tensor) {
  std::vector<at::Tensor> tensors{tensor};
  const CollectiveName name("agreement");
  return {std::move(tensor), control_->allreduce(tensors)};
}

std::vector<double> Team::sum(const std::vector<double>& values) {
  torch::Tensor tensor = torch::tensor(values, torch::kFloat64);
  sum(tensor).wait();
  const auto* first = tensor.const_data_ptr<double>();
  return {first, first + tensor.numel()};
}

c10::intrusive_ptr<c10d::Work> Team::sum_and_check(
    const torch::Tensor& tensor, std::function<void(const torch::Tensor&)> check) {
  const CollectiveName name("roll call");
  return control_->checked_sum(tensor, std::move(check));
}

namespace {

/// MPI's types lack some of libtorch's, such as those of masks.
torch::Tensor bytes_where_needed(const torch::Tensor& tensor) {
  constexpr std::array kSent{at::kFloat, at::kDouble, at::kLong, at::kInt, at::kByte};
  const bool sent = std::find(kSent.begin(), kSent.end(), tensor.scalar_type()) != kSent.end();
  if (sent || !tensor.device().is_cpu()) return tensor;
  return torch::from_blob(tensor.mutable_data_ptr(), {static_cast<std::int64_t>(tensor.nbytes())},
                          torch::kUInt8);
}

}  // namespace

void Team::broadcast(const std::vector<torch::Tensor>& tensors, int root) {
  const c10::intrusive_ptr<c10d::Backend> control(control_);
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (const torch::Tensor& tensor : tensors) {
    std::vector<at::Tensor> one{bytes_where_needed(tensor.detach())};
    works.push_back((tensor.device().is_cpu() ? control : backend_)->broadcast(one, options));
  }
  for (const auto& work : works) work->wait();
}

std::string Team::broadcast(std::string text, int root) {
  torch::Tensor length = torch::tensor({static_cast<std::int64_t>(text.size())}, torch::kInt64);
  broadcast(std::vector<torch::Tensor>{length}, root);
  text.resize(static_cast<std::size_t>(length.item<std::int64_t>()));
  if (text.empty()) return text;
  torch::Tensor bytes =
      torch::from_blob(text.data(), {static_cast<std::int64_t>(text.size())}, torch::kUInt8);
  broadcast(std::vector<torch::Tensor>{bytes}, root);
  return text;
}

std::vector<std::string> Team::gather(const std::string& text) {
  const auto all_of = [this](const at::Tensor& own) {
    at::Tensor all = torch::empty({size_, own.numel()}, own.options());
    at::Tensor input = own;
    control_->_allgather_base(all, input)->wait();
    return all;
  };
  const auto length = static_cast<std::int64_t>(text.size());
  const torch::Tensor lengths = all_of(torch::tensor({length}, torch::kInt64));
  const auto longest = lengths.max().item<std::int64_t>();
  if (longest == 0) return std::vector<std::string>(static_cast<std::size_t>(size_));
  std::string padded = text;
  padded.resize(static_cast<std::size_t>(longest));
  const torch::Tensor bytes = all_of(torch::from_blob(padded.data(), {longest}, torch::kUInt8));
  std::vector<std::string> all;
  for (int r = 0; r < size_; ++r)
    all.emplace_back(static_cast<const char*>(bytes[r].const_data_ptr()),
                     static_cast<std::size_t>(lengths[r][0].item<std::int64_t>()));
  return all;
}

bool Team::agree(std::uint64_t hash) {
  // The largest of x and of ~x tell the largest and the smallest in one reduction.
  const auto word = static_cast<std::int64_t>(hash >> 1);
  torch::Tensor both = torch::tensor({word, -word}, torch::kInt64);
  std::vector<at::Tensor> tensors{both};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  control_->allreduce(tensors, options)->wait();
  return both[0].item<std::int64_t>() == -both[1].item<std::int64_t>();
}

void together(Team& team, const std::function<void()>& work) {
  // First character: the exit code; nothing: all is well.
  std::string outcome;
  try {
    work();
  } catch (const UsageError& e) {
    outcome = "2" + std::string(e.what());
  } catch (const DataError& e) {
    outcome = "2" + std::string(e.what());
  } catch (const MpiError&) {
    throw;
  } catch (const std::exception& e) {
    outcome = "1" + std::string(e.what());
  }
  const auto all = team.gather(outcome);
  const auto failed =
      std::find_if(all.begin(), all.end(), [](const auto& s) { return !s.empty(); });
  if (failed == all.end()) return;
  // Rank 0 is where people look anyway.
  const auto rank = failed - all.begin();
  const std::string where = rank == 0 ? "" : "rank " + std::to_string(rank) + ": ";
  throw SharedError(failed->front() - '0', where + failed->substr(1));
}

int fair_threads(Team& team) {
  // Host name and the set of cores, as bytes.
  cpu_set_t own;
  CPU_ZERO(&own);
  const std::string host = host_name();
  if (sched_getaffinity(0, sizeof own, &own) != 0) CPU_SET(0, &own);
  std::string text = host + '\0';
  text.append(reinterpret_cast<const char*>(&own), sizeof own);

  int sharing = 0;
  for (const std::string& other : team.gather(text)) {
    if (!other.starts_with(std::string_view(text).substr(0, host.size() + 1))) continue;
    cpu_set_t set;
    std::memcpy(&set, other.data() + host.size() + 1, sizeof set);
    CPU_AND(&set, &set, &own);
    if (CPU_COUNT(&set) > 0) ++sharing;
  }
  return std::max(1, CPU_COUNT(&own) / std::max(1, sharing));
}

}  // namespace bellows::trainer
