// SPDX-License-Identifier: Apache-2.0
// One checkpoint in one file: written in whole or not at all, read only when every byte of it is
// what was written. docs/checkpoint-format.md describes the bytes.
//
// All functions may be called from any thread; those that use HDF5 take turns. Where others in the
// process use HDF5 in other threads meanwhile, it has to be a thread-safe build. HDF5 prints
// nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "checkpoint/error.h"
#include "checkpoint/state.h"

namespace bellows::checkpoint {

/// The newest format version that this library reads, and the one it writes.
inline constexpr int kFormatVersion = 1;

/// What a file says about itself in its first 512 bytes.
struct Info {
  int format_version = kFormatVersion;
  std::int64_t step = 0;
  std::string created;     ///< UTC, "2026-01-31T12:00:00.123456Z"; sorts as text
  std::uint64_t size = 0;  ///< of the file, in bytes
};

/// Now, in the form of Info::created.
std::string current_time();

struct Contents {
  Info info;
  State state;
};

/// Writes `state` to `file`, replacing what was there in one instant: temporary file in the same
/// folder, fsync, rename, fsync of the folder. When this returns, the checkpoint survives a power
/// cut; when it throws, the temporary file is gone and the old one is as it was (only when the
/// folder cannot be synced after the rename, the new one is in its place, whole but not sure to
/// last). `created` is the time to record, now when empty. Tensors are not copied. Throws Error
/// with kIo or kNoSpace; std::invalid_argument for a `created` of another form.
Info write(const std::filesystem::path& file, const State& state, std::int64_t step,
           std::string created = {});

/// Reads and checks the first 512 bytes and the file's size, nothing else: fast at any size, finds
/// truncation but not damage. Throws Error.
Info peek(const std::filesystem::path& file);

/// Checks every byte, structure and checksum, without keeping the content. Throws Error.
Info verify(const std::filesystem::path& file);

/// Checks every byte, then gives the content, or the part of the tensors whose path `wanted`
/// accepts (all when empty; attributes always). Throws Error, std::bad_alloc.
Contents read(const std::filesystem::path& file,
              const std::function<bool(std::string_view path)>& wanted = {});

}  // namespace bellows::checkpoint
