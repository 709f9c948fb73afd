// SPDX-License-Identifier: Apache-2.0
// What a process uses; the library of a GPU is a fake one (tests/programs/fake_nvml.cc).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "trainer/step/usage.h"

namespace bellows::trainer {
namespace {

std::string fake_library() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake_nvml.so").string();
}

TEST(Usage, OfMemoryIsAPeak) {
  const double before = usage_now(-1).peak_memory;
  EXPECT_GT(before, 1e6);
  EXPECT_LT(before, 1e10);
  EXPECT_EQ(usage_now(-1).gpu_memory, 0) << "there is no GPU";
}

TEST(Usage, OfAGpuIsWhatItsLibrarySays) {
  const std::string library = fake_library();
  const Nvml nvml("0000:3b:00.0", library.c_str());
  Usage usage;
  nvml.add(usage);
  EXPECT_EQ(usage.gpu_memory, 3e9);
  EXPECT_EQ(usage.gpu_utilisation, 0.75);
}

TEST(Usage, OfAGpuThatTheLibraryDoesNotKnowIsNothing) {
  const std::string library = fake_library();
  for (const Nvml& nvml : {Nvml("0000:00:00.0", library.c_str()), Nvml("", library.c_str()),
                           Nvml("0000:3b:00.0", "libnothing-of-this-name.so.1")}) {
    Usage usage{5, 0, 0};
    nvml.add(usage);
    EXPECT_EQ(usage.gpu_memory, 0);
    EXPECT_EQ(usage.gpu_utilisation, 0);
    EXPECT_EQ(usage.peak_memory, 5);
  }
}

}  // namespace
}  // namespace bellows::trainer
