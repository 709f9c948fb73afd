// SPDX-License-Identifier: Apache-2.0
// What this process uses of its machine: memory, and of a GPU as NVIDIA's library (NVML) tells it.
#pragma once

#include <string>

namespace bellows::trainer {

/// 0: not known.
struct Usage {
  double peak_memory = 0;      // bytes of main memory, the most so far (VmHWM of proc(5))
  double gpu_memory = 0;       // bytes of the device in use, by whomever
  double gpu_utilisation = 0;  // 0 to 1: the part of NVML's last period in which a kernel ran
};

/// Looks at one GPU, to the end of the process. Where NVML is not there, cannot be used, or does
/// not know the GPU, add() leaves everything as it is.
class Nvml {
 public:
  /// `bus_id` as cudaDeviceGetPCIBusId() gives it. `library`: another one, for tests.
  explicit Nvml(const std::string& bus_id, const char* library = "libnvidia-ml.so.1");
  void add(Usage& usage) const;

 private:
  void* library_ = nullptr;
  void* device_ = nullptr;
};

/// As of at most a second ago. `cuda_device`: that of the CUDA runtime which the process has, -1
/// for none; always the same. For one thread.
const Usage& usage_now(int cuda_device);

}  // namespace bellows::trainer
