// SPDX-License-Identifier: Apache-2.0
#include "trainer/team/mpi_backend.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "mpi_elastic/timeline.h"
#include "mpi_elastic/world.h"

namespace bellows::trainer {

namespace {

// A tensor is reduced in pieces of this size. Open MPI's choice of algorithm falls off a cliff
// above some 16 MB a call (4 times slower per byte at 100 MB); pieces below 1 MB pay latency.
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

int rank_of(MPI_Comm communicator) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(communicator, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm communicator) {
  int size = 0;
  check_mpi(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
  return size;
}

MPI_Datatype type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kLong:
      return MPI_INT64_T;
    case at::kInt:
      return MPI_INT32_T;
    case at::kByte:
      return MPI_UINT8_T;
    default:
      TORCH_CHECK(false, "bellows-mpi: no collectives on tensors of ", tensor.scalar_type());
  }
}

MPI_Op operation_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return MPI_SUM;
    case c10d::ReduceOp::PRODUCT:
      return MPI_PROD;
    case c10d::ReduceOp::MIN:
      return MPI_MIN;
    case c10d::ReduceOp::MAX:
      return MPI_MAX;
    case c10d::ReduceOp::BAND:
      return MPI_BAND;
    case c10d::ReduceOp::BOR:
      return MPI_BOR;
    case c10d::ReduceOp::BXOR:
      return MPI_BXOR;
    default:
      TORCH_CHECK(false, "bellows-mpi: this reduction is not offered");
  }
}

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu(), "bellows-mpi: tensors must be on the CPU");
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "bellows-mpi: tensors must be contiguous");
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "bellows-mpi: one tensor per call");
  check_tensor(tensors[0]);
  return tensors[0];
}

thread_local std::string collective_name;

std::uint64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

/// Calls f(pointer, count) for pieces of `tensor` that an MPI count can hold.
template <typename F>
void for_pieces(const at::Tensor& tensor, F f) {
  const std::int64_t piece = std::max<std::int64_t>(1, kPieceBytes / tensor.element_size());
  auto* at = static_cast<std::byte*>(tensor.data_ptr());
  for (std::int64_t first = 0; first < tensor.numel(); first += piece)
    f(at + first * tensor.element_size(),
      static_cast<int>(std::min(piece, tensor.numel() - first)));
}

}  // namespace

CollectiveName::CollectiveName(std::string name) { collective_name = std::move(name); }
CollectiveName::~CollectiveName() { collective_name.clear(); }

class MpiBackend::MpiWork : public c10d::Work {
 public:
  MpiWork(int rank, c10d::OpType type, std::vector<at::Tensor> results)
      : Work(rank, type),
        results_(std::move(results)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::vector<at::Tensor> result() override { return results_; }

  void complete(const std::exception_ptr& failure) {
    // The future first: whoever waited on the work may look at it at once.
    if (failure)
      future_->setError(failure);
    else
      future_->markCompleted(at::IValue(results_));
    finish(failure);
  }

 private:
  std::vector<at::Tensor> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

void let_waiting_threads_yield() {
  // Read by Open MPI when the first world is opened.
  constexpr int kOverwrite = 0;
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", kOverwrite);
}

MpiBackend::MpiBackend(MPI_Comm communicator)
    : Backend(rank_of(communicator), size_of(communicator)),
      communicator_(communicator),
      thread_([this] { work_through(); }) {}

MpiBackend::~MpiBackend() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

c10::intrusive_ptr<c10d::Work> MpiBackend::enqueue(c10d::OpType type,
                                                   std::vector<at::Tensor> results,
                                                   std::function<void()> run) {
  auto work = c10::make_intrusive<MpiWork>(getRank(), type, std::move(results));
  Operation operation{work, std::move(run), {}};
  if (Timeline::on()) {
    operation.name = collective_name.empty() ? c10d::opTypeToString(type) : collective_name;
    operation.bytes = bytes_of(work->result());
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(operation));
  }
  wake_.notify_one();
  return work;
}

// The calls block. Non-blocking ones, tested for completion now and then, take the same time, but
// after the death of a peer Open MPI 5.0 can try to progress them for ever.
void MpiBackend::work_through() {
  Timeline::name_thread("collectives");
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (!failure_) {
      const TimelineSpan span(operation.name.c_str(), operation.bytes);
      try {
        operation.run();
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
    operation.work->complete(failure_);
    operation = {};
    lock.lock();
  }
}

c10::intrusive_ptr<c10d::Work> MpiBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(tensors);
  const MPI_Datatype type = type_of(tensor);
  const MPI_Op op = operation_of(options.reduceOp);
  return enqueue(c10d::OpType::ALLREDUCE, tensors, [this, tensor, type, op] {
    for_pieces(tensor, [&](void* at, int count) {
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, at, count, type, op, communicator_), "MPI_Allreduce");
    });
  });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors);
  const MPI_Datatype type = type_of(tensor);
  const int root = static_cast<int>(options.rootRank);
  return enqueue(c10d::OpType::BROADCAST, tensors, [this, tensor, type, root] {
    for_pieces(tensor, [&](void* at, int count) {
      check_mpi(MPI_Bcast(at, count, type, root, communicator_), "MPI_Bcast");
    });
  });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                           const c10d::AllgatherOptions&) {
  check_tensor(output);
  check_tensor(input);
  TORCH_CHECK(
      output.numel() == input.numel() * getSize() && output.scalar_type() == input.scalar_type(),
      "bellows-mpi: the output of allgather must hold the inputs of all ranks");
  TORCH_CHECK(input.numel() <= kPieceBytes, "bellows-mpi: input of allgather too large");
  const MPI_Datatype type = type_of(input);
  return enqueue(c10d::OpType::_ALLGATHER_BASE, {output}, [this, output, input, type] {
    const int count = static_cast<int>(input.numel());
    check_mpi(
        MPI_Allgather(input.data_ptr(), count, type, output.data_ptr(), count, type, communicator_),
        "MPI_Allgather");
  });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions&) {
  const at::Tensor& input = only(inputs);
  TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == static_cast<std::size_t>(getSize()),
              "bellows-mpi: allgather needs one output per rank");
  TORCH_CHECK(input.numel() <= kPieceBytes, "bellows-mpi: input of allgather too large");
  for (const at::Tensor& output : outputs[0]) {
    check_tensor(output);
    TORCH_CHECK(output.numel() == input.numel() && output.scalar_type() == input.scalar_type(),
                "bellows-mpi: outputs of allgather must be like the input");
  }
  const MPI_Datatype type = type_of(input);
  return enqueue(c10d::OpType::ALLGATHER, outputs[0], [this, to = outputs[0], input, type] {
    at::Tensor all = at::empty({getSize(), input.numel()}, input.options());
    const int count = static_cast<int>(input.numel());
    check_mpi(
        MPI_Allgather(input.data_ptr(), count, type, all.data_ptr(), count, type, communicator_),
        "MPI_Allgather");
    for (std::size_t r = 0; r < to.size(); ++r)
      at::Tensor(to[r]).copy_(all[static_cast<std::int64_t>(r)].view(to[r].sizes()));
  });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::barrier(const c10d::BarrierOptions&) {
  return enqueue(c10d::OpType::BARRIER, {},
                 [this] { check_mpi(MPI_Barrier(communicator_), "MPI_Barrier"); });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::checked_sum(
    const at::Tensor& words, std::function<void(const at::Tensor&)> check) {
  check_tensor(words);
  const MPI_Datatype type = type_of(words);
  return enqueue(c10d::OpType::ALLREDUCE, {words}, [this, words, type, check = std::move(check)] {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, words.data_ptr(), static_cast<int>(words.numel()), type,
                            MPI_SUM, communicator_),
              "MPI_Allreduce");
    check(words);
  });
}

}  // namespace bellows::trainer
