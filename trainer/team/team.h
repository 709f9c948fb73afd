// SPDX-License-Identifier: Apache-2.0
// The ranks that train together in one world, as the training sees them: who we are, and the
// collectives it uses. Made anew for each world.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mpi_elastic/world.h"
#include "trainer/team/mpi_backend.h"
#include "trainer/torch_headers.h"

namespace bellows::trainer {

/// A tensor that is being reduced; wait() gives it, or throws MpiError.
class Pending {
 public:
  using Clock = std::chrono::steady_clock;
  Pending(torch::Tensor tensor, c10::intrusive_ptr<c10d::Work> work)
      : tensor_(std::move(tensor)), work_(std::move(work)) {
    work_->getFuture()->addCallback([ended = ended_](const auto&) { *ended = Clock::now(); });
  }
  const torch::Tensor& wait() {
    work_->wait();
    return tensor_;
  }
  /// When it was there, once wait() has returned: maybe long before.
  Clock::time_point ended() const { return *ended_; }

 private:
  std::shared_ptr<Clock::time_point> ended_ = std::make_shared<Clock::time_point>();
  torch::Tensor tensor_;
  c10::intrusive_ptr<c10d::Work> work_;
};

/// All methods are collective unless they say otherwise and throw MpiError when one fails. The
/// world must outlive the team.
class Team {
 public:
  /// For tensors on `device`: CPU tensors go over MPI, CUDA tensors over NCCL.
  Team(const World& world, const torch::Device& device);

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The collectives for tensors on the device.
  const c10::intrusive_ptr<c10d::Backend>& backend() const { return backend_; }

  /// Sums a CPU tensor in place over the ranks, beside other work.
  Pending sum(torch::Tensor tensor);
  std::vector<double> sum(const std::vector<double>& values);
  /// The same; before any later collective begins `check` sees the sums. What it throws, on all
  /// ranks alike, is thrown by those instead, and when the work is waited for.
  c10::intrusive_ptr<c10d::Work> sum_and_check(const torch::Tensor& tensor,
                                               std::function<void(const torch::Tensor&)> check);
  /// Sends the tensors of rank `root` to all, in place; on the device or on the CPU.
  void broadcast(const std::vector<torch::Tensor>& tensors, int root = 0);
  std::string broadcast(std::string text, int root = 0);
  /// Each rank's text, by rank.
  std::vector<std::string> gather(const std::string& text);
  /// True when the bytes are the same on all ranks.
  bool agree(std::uint64_t hash);

 private:
  int rank_;
  int size_;
  c10::intrusive_ptr<MpiBackend> control_;
  c10::intrusive_ptr<c10d::Backend> backend_;
};

/// Runs `work` on each rank. When it throws on some, all ranks throw the SharedError of the lowest
/// of them, so that they end together. Collective.
void together(Team& team, const std::function<void()>& work);

/// The cores a rank may use, divided among the ranks of this node that may use the same; at least
/// one. Collective.
int fair_threads(Team& team);

}  // namespace bellows::trainer
