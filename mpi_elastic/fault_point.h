// SPDX-License-Identifier: Apache-2.0
// Places in the protocol at which a test can have a process die. Programs do not define the
// function, and then a place costs a comparison; the tests' programs do
// (tests/programs/fault_point.cc).
#pragma once

extern "C" void bellows_fault_point(const char* name) __attribute__((weak));

namespace bellows::elastic {

inline void fault_point(const char* name) {
  if (bellows_fault_point != nullptr) bellows_fault_point(name);
}

}  // namespace bellows::elastic
