// SPDX-License-Identifier: Apache-2.0
// Files on disk: reading one, and making a new one that takes its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "checkpoint/error.h"

namespace bellows::checkpoint {

/// Error with kNoSpace for ENOSPC, EDQUOT and EFBIG, else kIo; detail "WHAT: strerror".
Error system_error(const std::filesystem::path& file, const std::string& what, int code);

/// Owns a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }
  int get() const { return fd_; }
  void reset();

 private:
  int fd_;
};

/// All of `bytes`, with as many calls as it takes. 0, or errno; reading beyond the end is EIO.
int read_fully(int fd, std::span<std::byte> bytes, std::uint64_t offset);
int write_fully(int fd, std::span<const std::byte> bytes, std::uint64_t offset);

/// fsync. 0, or errno.
int sync_to_disk(int fd);

/// A regular file opened for reading. Throws Error (kIo).
class InputFile {
 public:
  explicit InputFile(std::filesystem::path file);
  const std::filesystem::path& path() const { return path_; }
  int fd() const { return fd_.get(); }
  std::uint64_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  Descriptor fd_;
  std::uint64_t size_ = 0;
};

/// A file on its way to its name. Until commit() it is a temporary in the same folder, under a lock
/// (flock) that tells its writer is alive; the destructor removes it. While one exists in a thread,
/// writing beyond the file size limit is an error (EFBIG) and not the signal SIGXFSZ.
class OutputFile {
 public:
  /// Throws Error.
  explicit OutputFile(std::filesystem::path target);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  const std::filesystem::path& target() const { return target_; }
  const std::filesystem::path& temporary() const { return temporary_; }
  int fd() const { return fd_.get(); }
  /// Claims the space now where the file system can, so that a full disk shows before the work.
  void reserve(std::uint64_t bytes);
  /// To disk, to its name, and the name to disk.
  void commit();

 private:
  void create();
  [[noreturn]] void fail(const std::string& what, int code) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Descriptor fd_;
  bool signal_was_blocked_ = false;
};

/// Whether `name` (without folder) is one that OutputFile gives to temporaries of targets whose
/// names begin with `prefix`.
bool is_temporary_name(const std::string& name, const std::string& prefix);

/// Removes the temporary file unless its writer may be alive. True when it was removed.
bool remove_if_abandoned(const std::filesystem::path& temporary);

}  // namespace bellows::checkpoint
