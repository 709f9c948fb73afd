// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/usage.h"

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <fstream>
#include <optional>

namespace bellows::trainer {

namespace {

// What is used of nvml.h, version 2 and later; all functions return 0 for success. So no header is
// needed to build, and no library to run.
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlUtilization {
  unsigned gpu, memory;  // per cent
};
using Init = int();
using HandleByBusId = int(const char*, void**);
using MemoryInfo = int(void*, NvmlMemory*);
using UtilizationRates = int(void*, NvmlUtilization*);

template <typename Function>
Function* function(void* library, const char* name) {
  return library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

/// "" where there is no CUDA runtime in this process.
std::string bus_id_of(int cuda_device) {
  const auto get =
      function<int(char*, int, int)>(dlopen(nullptr, RTLD_LAZY), "cudaDeviceGetPCIBusId");
  std::array<char, 32> id{};
  if (get == nullptr || get(id.data(), static_cast<int>(id.size()), cuda_device) != 0) return "";
  return id.data();
}

double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return 1024 * kilobytes;
  }
  return 0;
}

}  // namespace

Nvml::Nvml(const std::string& bus_id, const char* library)
    : library_(bus_id.empty() ? nullptr : dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
  const auto init = function<Init>(library_, "nvmlInit_v2");
  const auto find = function<HandleByBusId>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
  if (init == nullptr || find == nullptr || init() != 0) return;
  if (find(bus_id.c_str(), &device_) != 0) device_ = nullptr;
}

void Nvml::add(Usage& usage) const {
  if (device_ == nullptr) return;
  NvmlMemory memory{};
  const auto memory_info = function<MemoryInfo>(library_, "nvmlDeviceGetMemoryInfo");
  if (memory_info != nullptr && memory_info(device_, &memory) == 0)
    usage.gpu_memory = static_cast<double>(memory.used);
  NvmlUtilization utilization{};
  const auto rates = function<UtilizationRates>(library_, "nvmlDeviceGetUtilizationRates");
  if (rates != nullptr && rates(device_, &utilization) == 0)
    usage.gpu_utilisation = utilization.gpu / 100.0;
}

const Usage& usage_now(int cuda_device) {
  using Clock = std::chrono::steady_clock;
  static const Nvml nvml(cuda_device >= 0 ? bus_id_of(cuda_device) : "");
  static Usage usage;
  static std::optional<Clock::time_point> looked;
  const auto now = Clock::now();
  if (looked && now - *looked < std::chrono::seconds(1)) return usage;
  looked = now;
  usage.peak_memory = peak_memory();
  nvml.add(usage);
  return usage;
}

}  // namespace bellows::trainer
