// SPDX-License-Identifier: Apache-2.0
// Reading a file, and errors of the system as Error.
#include "checkpoint/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace bellows::checkpoint {
namespace {

// Linux moves at most 2 GiB per call; less keeps a killed process killable.
constexpr std::size_t kLargestCall = std::size_t{256} << 20;

std::string advice_for(int code) {
  switch (code) {
    case ENOSPC:
      return "free space there or name another folder";
    case EDQUOT:
      return "the quota is used up: remove files or name another folder";
    case EFBIG:
      return "raise the file size limit (ulimit -f) or name another folder";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check the permissions, or name a folder that you may write to";
    case ENOENT:
      return "check the path";
    default:
      return {};
  }
}

}  // namespace

Error system_error(const std::filesystem::path& file, const std::string& what, int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return {file, full ? Reason::kNoSpace : Reason::kIo,
          what + ": " + std::generic_category().message(code), advice_for(code)};
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Descriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

int read_fully(int fd, std::span<std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(fd, bytes.data(), std::min(bytes.size(), kLargestCall), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return 0;
}

int write_fully(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), std::min(bytes.size(), kLargestCall),
                                 static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    if (put == 0) return ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return 0;
}

int sync_to_disk(int fd) { return ::fsync(fd) == 0 ? 0 : errno; }

InputFile::InputFile(std::filesystem::path file) : path_(std::move(file)) {
  // O_NONBLOCK: a FIFO must not hold us up.
  fd_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd_.get() < 0) throw system_error(path_, "cannot open", errno);
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) throw system_error(path_, "cannot stat", errno);
  if (S_ISDIR(status.st_mode)) throw system_error(path_, "cannot read", EISDIR);
  if (!S_ISREG(status.st_mode)) throw Error(path_, Reason::kForeign, "not a regular file");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

}  // namespace bellows::checkpoint
