// SPDX-License-Identifier: Apache-2.0
// A file on its way to its name, and what is left of those whose writers died.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <random>
#include <utility>

#include "checkpoint/disk.h"

namespace bellows::checkpoint {
namespace {

constexpr std::string_view kSuffix = ".tmp";
constexpr std::size_t kRandomDigits = 16;
// Names have at most 255 bytes: so much of the target's name goes into the temporary one.
constexpr std::size_t kMostOfTarget = 100;
// Where a lock of another node may be invisible (Lustre with localflock), or locks do not exist,
// a file that was not touched for so long has no living writer. A writer that was merely suspended
// finds its file gone and reports it: nothing is damaged by a wrong guess.
constexpr std::time_t kQuietSeconds = 3600;

std::string host_name() {
  std::array<char, 65> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string random_digits() {
  std::random_device source;
  const auto high = static_cast<unsigned>(source());
  const auto low = static_cast<unsigned>(source());
  std::array<char, kRandomDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x", high, low);
  return text.data();
}

// .TARGET.HOST.PID.RANDOM.tmp
std::string temporary_name(const std::string& target) {
  return "." + target.substr(0, kMostOfTarget) + "." + host_name() + "." +
         std::to_string(::getpid()) + "." + random_digits() + std::string(kSuffix);
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  const auto folder = file.parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

sigset_t file_size_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool written_on_this_host(std::string_view name) {
  name.remove_suffix(kSuffix.size() + kRandomDigits + 1);
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && name.substr(0, dot).ends_with("." + host_name());
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path target) : target_(std::move(target)) {
  struct stat status{};
  if (::stat(target_.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw Error(target_, Reason::kIo, "exists and is not a regular file", "name another file");
  const sigset_t set = file_size_signal();
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &set, &before);
  signal_was_blocked_ = sigismember(&before, SIGXFSZ) == 1;
  try {
    create();
  } catch (...) {
    if (!signal_was_blocked_) ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    throw;
  }
}

void OutputFile::create() {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    temporary_ = folder_of(target_) / temporary_name(target_.filename().string());
    fd_ = Descriptor(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd_.get() < 0 && errno == EEXIST) continue;
    if (fd_.get() < 0) throw system_error(target_, "cannot create a file in its folder", errno);
    // Someone may have found the file between its creation and this lock, taken it for an
    // abandoned one, and locked or removed it. Then make another one.
    struct stat status{};
    const bool taken = ::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && ::fstat(fd_.get(), &status) == 0 && status.st_nlink > 0) return;
    ::unlink(temporary_.c_str());
  }
  throw Error(target_, Reason::kIo, "cannot make a temporary file in its folder");
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (signal_was_blocked_) return;
  const sigset_t set = file_size_signal();
  const timespec now{};
  while (::sigtimedwait(&set, nullptr, &now) > 0) {
  }
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void OutputFile::fail(const std::string& what, int code) const {
  throw system_error(target_, what, code);
}

void OutputFile::reserve(std::uint64_t bytes) {
  // Not posix_fallocate(): where the file system cannot, that would write zeros.
  if (::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
    fail("cannot reserve " + std::to_string(bytes) + " bytes", errno);
}

void OutputFile::commit() {
  if (::fsync(fd_.get()) != 0) fail("cannot write to disk", errno);
  // Network file systems may report a full disk at close only; the copy leaves our lock in place.
  const int copy = ::dup(fd_.get());
  if (copy < 0 || ::close(copy) != 0) fail("cannot close", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot rename to it", errno);
  temporary_.clear();
  const Descriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) fail("cannot open its folder", errno);
  // Some file systems have no fsync for folders: their renames are as durable as they get.
  if (::fsync(folder.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail("cannot write its folder to disk", errno);
}

bool is_temporary_name(const std::string& name, const std::string& prefix) {
  if (!name.starts_with("." + prefix) || !name.ends_with(kSuffix)) return false;
  std::string_view rest(name);
  rest.remove_suffix(kSuffix.size());
  const std::size_t dot = rest.rfind('.');
  const std::string_view digits = rest.substr(dot + 1);
  return dot != 0 && digits.size() == kRandomDigits &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool remove_if_abandoned(const std::filesystem::path& temporary) {
  const Descriptor fd(::open(temporary.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat opened{};
  if (fd.get() < 0 || ::fstat(fd.get(), &opened) != 0 || !S_ISREG(opened.st_mode)) return false;
  const bool locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno == EWOULDBLOCK) return false;
  const bool quiet = ::time(nullptr) - opened.st_mtime > kQuietSeconds;
  if (!quiet && !(locked && written_on_this_host(temporary.filename().string()))) return false;
  // While we hold the lock, the name may only have gone (renamed by its writer), not been reused.
  struct stat named{};
  if (::lstat(temporary.c_str(), &named) != 0 || !same_file(opened, named)) return false;
  return ::unlink(temporary.c_str()) == 0;
}

}  // namespace bellows::checkpoint
