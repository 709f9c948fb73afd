// SPDX-License-Identifier: Apache-2.0
#include "protocol/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace bellows::protocol {
namespace {

constexpr std::size_t kMostComplaints = 5;

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw std::runtime_error(path + ": " + why);
}

}  // namespace

void LineFile::open(const std::string& path, unsigned mode) {
  // (A pipe without a reader would be waited for.)
  Fd opened(
      ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, mode));
  if (!opened.valid()) fail(path, std::strerror(errno));
  struct stat status{};
  if (fstat(opened.get(), &status) != 0) fail(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(path, "is not a file");
  char last = '\n';
  if (status.st_size > 0 && pread(opened.get(), &last, 1, status.st_size - 1) != 1) {
    fail(path, std::strerror(errno));
  }
  torn_ = last != '\n';  // of one that was killed as it wrote
  path_ = path;
  file_ = std::move(opened);
}

std::string LineFile::append(const std::string& line) {
  const std::string whole = (torn_ ? "\n" : "") + line + "\n";
  ssize_t written = 0;
  do {
    written = ::write(file_.get(), whole.data(), whole.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(whole.size())) {
    torn_ = false;
    return "";
  }
  torn_ = torn_ || written > 0;
  return path_ + ": " + (written < 0 ? std::strerror(errno) : "the disk is full") +
         "; events are missing there";
}

void read_json_lines(const std::string& path,
                     const std::function<void(const boost::json::object&)>& take,
                     const std::function<void(const std::string&)>& complain) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) {
    fail(path, failed ? failed.message() : "is not a file");
  }
  std::ifstream file(path);
  if (!file) fail(path, std::strerror(errno));
  std::string line;
  std::size_t damaged = 0;
  for (int number = 1; std::getline(file, line); ++number) {
    try {
      take(boost::json::parse(line).as_object());
    } catch (const std::exception&) {
      if (++damaged > kMostComplaints) continue;
      complain(path + ": line " + std::to_string(number) +
               (file.eof() ? " is not whole" : " is damaged") + ", and left out");
    }
  }
  if (file.bad()) fail(path, std::strerror(errno));
  if (damaged > kMostComplaints) {
    complain(path + ": " + std::to_string(damaged - kMostComplaints) +
             " more lines are damaged, and left out");
  }
}

}  // namespace bellows::protocol
