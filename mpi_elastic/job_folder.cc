// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/job_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace bellows::elastic {
namespace {

// A Unix socket's path has at most 107 bytes, and the PMIx library adds some 40 to the folder.
constexpr std::size_t kLongestFolder = 64;

std::string make_folder(const std::string& parent, const std::string& job) {
  std::string name = parent + "/bellows-" + std::to_string(geteuid()) + "-" + job + "-XXXXXX";
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
  if (access("/dev/shm", W_OK) == 0) memory_ = make_folder("/dev/shm", job);
}

JobFolder::~JobFolder() {
  std::error_code ignored;  // nobody is left to be told
  std::filesystem::remove_all(path_, ignored);
  if (!memory_.empty()) std::filesystem::remove_all(memory_, ignored);
}

}  // namespace bellows::elastic
