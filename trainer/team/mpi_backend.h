// SPDX-License-Identifier: Apache-2.0
// Collectives of c10d over an MPI communicator. Calls return at once; a thread of the backend runs
// them one after the other, in the order of the calls, while the caller goes on computing.
#pragma once

#include <mpi.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trainer/torch_headers.h"

namespace bellows::trainer {

/// Makes threads that wait in MPI give their core to others; has an effect before the first world
/// is opened, and none when the user has set OMPI_MCA_mpi_yield_when_idle. The backend's thread
/// shares its core with the one that computes: without it a step takes up to twice as long.
void let_waiting_threads_yield();

/// What the collectives that this thread calls meanwhile are called on the timeline.
class CollectiveName {
 public:
  explicit CollectiveName(std::string name);
  CollectiveName(const CollectiveName&) = delete;
  CollectiveName& operator=(const CollectiveName&) = delete;
  ~CollectiveName();
};

/// For CPU tensors of float, double, int64, int32 and uint8, one contiguous tensor per call.
///
/// An MPI error ends the backend: the call that met it and all that follow fail with the same
/// MpiError, from Work::wait() and from the future's value(). Nothing is retried and nothing
/// aborts; the world has to be changed and a new backend made.
///
/// Thread-safe, but all ranks must make the same calls in the same order.
class MpiBackend : public c10d::Backend {
 public:
  /// The communicator stays the caller's, who must not use it from another thread meanwhile and
  /// must keep it until the backend is gone. MPI_THREAD_SERIALIZED is needed.
  explicit MpiBackend(MPI_Comm communicator);
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;
  /// Waits for what was called; after an error that is immediate.
  ~MpiBackend() override;

  const std::string getBackendName() const override { return "bellows-mpi"; }
  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors,
      const c10d::AllreduceOptions& options = c10d::AllreduceOptions()) override;
  c10::intrusive_ptr<c10d::Work> broadcast(
      std::vector<at::Tensor>& tensors,
      const c10d::BroadcastOptions& options = c10d::BroadcastOptions()) override;
  c10::intrusive_ptr<c10d::Work> allgather(
      std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options = c10d::AllgatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(
      at::Tensor& output, at::Tensor& input,
      const c10d::AllgatherOptions& options = c10d::AllgatherOptions()) override;
  c10::intrusive_ptr<c10d::Work> barrier(
      const c10d::BarrierOptions& options = c10d::BarrierOptions()) override;

  /// Sums `words` in place over the ranks and calls `check` with them on the backend's thread,
  /// before the collectives that are called later. What it throws ends the backend as an MPI error
  /// does; so it must do the same on all ranks.
  c10::intrusive_ptr<c10d::Work> checked_sum(const at::Tensor& words,
                                             std::function<void(const at::Tensor&)> check);

 private:
  class MpiWork;
  struct Operation {
    c10::intrusive_ptr<MpiWork> work;
    std::function<void()> run;
    std::string name;  // where there is a timeline
    std::uint64_t bytes = 0;
  };
  c10::intrusive_ptr<c10d::Work> enqueue(c10d::OpType type, std::vector<at::Tensor> results,
                                         std::function<void()> run);
  void work_through();

  MPI_Comm communicator_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Operation> queue_;
  bool closing_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace bellows::trainer
