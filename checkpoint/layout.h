// SPDX-License-Identifier: Apache-2.0
// How a state lies in an HDF5 file. docs/checkpoint-format.md, section "The HDF5 part".
#pragma once

#include <hdf5.h>

#include <functional>
#include <stdexcept>
#include <string_view>

#include "checkpoint/file.h"

namespace bellows::checkpoint {

/// The content contradicts itself or its checksums.
class Mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws h5::Failure.
void write_layout(hid_t file, const State& state, const Info& info);

/// Checks all that the file's list names, and the root's attributes against `info`; gives what
/// `wanted` accepts. `keep` false: checks only, one tensor in memory at a time.
/// Throws h5::Failure, Mismatch, std::bad_alloc.
State read_layout(hid_t file, const Info& info, bool keep,
                  const std::function<bool(std::string_view)>& wanted);

}  // namespace bellows::checkpoint
