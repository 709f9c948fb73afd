// SPDX-License-Identifier: Apache-2.0
// A disk that fails on demand.
#include "tests/unit/checkpoint_faults.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace bellows::checkpoint::faults {
namespace {

Plan plan;
bool armed = false;
std::vector<std::string> calls;

// Whether the call that begins now is to fail; errno is set.
bool strikes(const char* name) {
  if (!armed) return false;
  calls.emplace_back(name);
  const int number = static_cast<int>(calls.size());
  const bool hit = plan.at > 0 && (number == plan.at || (plan.and_after && number > plan.at));
  if (hit && plan.kill) ::kill(::getpid(), SIGKILL);
  if (hit) errno = plan.code;
  return hit;
}

template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void arm(const Plan& new_plan) {
  plan = new_plan;
  calls.clear();
  armed = true;
}

std::vector<std::string> disarm() {
  armed = false;
  return std::exchange(calls, {});
}

}  // namespace bellows::checkpoint::faults

namespace faults = bellows::checkpoint::faults;

extern "C" {

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  static auto* const real = faults::next(&pwrite, "pwrite");
  if (faults::armed && faults::plan.kill &&
      static_cast<int>(faults::calls.size()) + 1 == faults::plan.at)
    real(fd, data, size / 2, offset);
  if (faults::strikes("pwrite")) return -1;
  if (faults::armed && faults::plan.short_writes) {
    if (faults::calls.size() % 3 == 0) {
      errno = EINTR;
      return -1;
    }
    size = std::max<size_t>(1, size * 2 / 3);
  }
  return real(fd, data, size, offset);
}

int fsync(int fd) {
  static auto* const real = faults::next(&fsync, "fsync");
  return faults::strikes("fsync") ? -1 : real(fd);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  static auto* const real = faults::next(&fallocate, "fallocate");
  return faults::strikes("fallocate") ? -1 : real(fd, mode, offset, size);
}

int ftruncate(int fd, off_t size) noexcept {
  static auto* const real = faults::next(&ftruncate, "ftruncate");
  return faults::strikes("ftruncate") ? -1 : real(fd, size);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = faults::next(&rename, "rename");
  return faults::strikes("rename") ? -1 : real(from, to);
}

int close(int fd) {
  static auto* const real = faults::next(&close, "close");
  const bool fails = faults::strikes("close");
  const int code = errno;
  const int status = real(fd);  // the descriptor is gone in any case
  if (fails) errno = code;
  return fails ? -1 : status;
}
}
