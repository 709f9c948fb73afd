// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/agent/job_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace bellows::elastic {
namespace {

// A Unix socket's path has at most 107 bytes, and the PMIx library adds some 40 to the folder.
constexpr std::size_t kLongestFolder = 64;

std::string name_prefix() { return "bellows-" + std::to_string(geteuid()) + "-"; }

// The lock is taken before the file has its name: what has the name and no lock belongs to the
// dead.
Fd mark_alive(const std::string& folder) {
  const std::string unnamed = folder + "/.new";
  Fd file(open(unnamed.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid() && flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
    rename(unnamed.c_str(), (folder + "/.alive").c_str());
  }
  return file;
}

void remove_dead(const std::string& parent) {
  std::error_code ignored;  // another agent may be doing the same
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    if (!entry.path().filename().string().starts_with(name_prefix())) continue;
    const Fd file(open((entry.path() / ".alive").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (file.valid() && flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      std::filesystem::remove_all(entry.path(), ignored);
    }
  }
}

std::string make_folder(const std::string& parent, const std::string& job) {
  remove_dead(parent);
  std::string name = parent + "/" + name_prefix() + job + "-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("cannot make a folder " + name + ": " + std::strerror(errno) +
                             " (set TMPDIR to a folder on this node that you may write to)");
  }
  return name;
}

}  // namespace

JobFolder::JobFolder(const std::string& job) {
  const char* chosen = std::getenv("TMPDIR");
  std::string parent = chosen != nullptr && *chosen != '\0' ? chosen : "/tmp";
  if (parent.size() > kLongestFolder) parent = "/tmp";
  path_ = make_folder(parent, job);
  alive_ = mark_alive(path_);
  if (access("/dev/shm", W_OK) == 0) {
    memory_ = make_folder("/dev/shm", job);
    memory_alive_ = mark_alive(memory_);
  }
}

JobFolder::~JobFolder() {
  std::error_code ignored;  // nobody is left to be told
  std::filesystem::remove_all(path_, ignored);
  if (!memory_.empty()) std::filesystem::remove_all(memory_, ignored);
}

}  // namespace bellows::elastic
