// SPDX-License-Identifier: Apache-2.0
// As much of NVML as is used, with one GPU at bus 3b: for tests, and where there is no GPU.
#include <cstring>

namespace {
int the_device = 0;
}

extern "C" {

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  constexpr int kNotFound = 6;
  if (std::strcmp(bus_id, "0000:3b:00.0") != 0) return kNotFound;
  *device = &the_device;
  return 0;
}

int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  constexpr int kInvalid = 2;
  if (device != &the_device) return kInvalid;
  total_free_used[0] = 8'000'000'000;
  total_free_used[1] = 5'000'000'000;
  total_free_used[2] = 3'000'000'000;
  return 0;
}

int nvmlDeviceGetUtilizationRates(void*, unsigned* gpu_memory) {
  gpu_memory[0] = 75;
  gpu_memory[1] = 20;
  return 0;
}

}  // extern "C"
