// SPDX-License-Identifier: Apache-2.0
#include "trainer/team/device.h"

#include "config.h"
#include "trainer/errors.h"
#include "trainer/team/place.h"
#ifdef BELLOWS_HAVE_CUDA
#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

namespace bellows::trainer {

#ifdef BELLOWS_HAVE_CUDA

torch::Device make_device(const std::string& name, int local_rank) {
  if (name == "cpu") return torch::kCPU;
  const int count = static_cast<int>(torch::cuda::device_count());
  if (count == 0) throw UsageError("--device cuda: this node has no CUDA device");
  // The launcher may have given each rank a device of its own with CUDA_VISIBLE_DEVICES.
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(local_rank % count)};
}

c10::intrusive_ptr<c10d::Backend> make_cuda_backend(
    int rank, int size, const torch::Device& device,
    const std::function<std::string(std::string)>& broadcast) {
  const std::string host = host_name();
  c10d::TCPStoreOptions options;
  options.isServer = rank == 0;
  options.numWorkers = size;
  options.waitWorkers = false;
  options.port = 0;
  c10::intrusive_ptr<c10d::TCPStore> store;
  if (rank == 0) store = c10::make_intrusive<c10d::TCPStore>(host, options);
  const std::string where =
      broadcast(rank == 0 ? fmt::format("{} {}", host, store->getPort()) : "");
  if (rank != 0) {
    const auto space = where.find(' ');
    options.port = static_cast<std::uint16_t>(std::stoi(where.substr(space + 1)));
    store = c10::make_intrusive<c10d::TCPStore>(where.substr(0, space), options);
  }
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size);
  backend->setBoundDeviceId(device);
  return backend;
}

#else

torch::Device make_device(const std::string& name, int) {
  if (name == "cpu") return torch::kCPU;
  throw UsageError("--device " + name +
                   ": this bellows-train was built without CUDA (./configure --with-cuda=DIR); "
                   "use --device cpu");
}

c10::intrusive_ptr<c10d::Backend> make_cuda_backend(
    int, int, const torch::Device&, const std::function<std::string(std::string)>&) {
  throw UsageError("this bellows-train was built without CUDA");
}

#endif

}  // namespace bellows::trainer
