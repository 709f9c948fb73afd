// SPDX-License-Identifier: Apache-2.0
#include "protocol/control_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace bellows::protocol {
namespace {

constexpr const char* kVariable = "BELLOWS_CONTROL_DIR";
constexpr std::size_t kLongestName = 64;

std::string octal(mode_t mode) {
  std::string digits;
  for (int shift = 6; shift >= 0; shift -= 3) {
    digits += static_cast<char>('0' + ((mode >> shift) & 7));
  }
  return digits;
}

[[noreturn]] void refuse(const std::string& folder, const std::string& why) {
  throw std::runtime_error("the folder for control sockets, " + folder + ", " + why + " (" +
                           kVariable + " names another)");
}

}  // namespace

std::string control_folder() {
  const char* chosen = std::getenv(kVariable);
  if (chosen == nullptr || *chosen == '\0') {
    return "/tmp/bellows-ctl-" + std::to_string(geteuid());
  }
  std::string folder = chosen;
  if (folder[0] != '/') {
    throw std::runtime_error(std::string(kVariable) + "='" + folder + "' is no absolute path");
  }
  // "link/" would be looked up behind the link.
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

void check_control_folder(const std::string& folder) {
  struct stat status{};
  if (lstat(folder.c_str(), &status) != 0) {
    refuse(folder, std::string("cannot be used: ") + std::strerror(errno));
  }
  if (S_ISLNK(status.st_mode)) refuse(folder, "is a link");
  if (!S_ISDIR(status.st_mode)) refuse(folder, "is not a folder");
  if (status.st_uid != geteuid()) {
    refuse(folder, "belongs to user " + std::to_string(status.st_uid) + ", not to user " +
                       std::to_string(geteuid()));
  }
  if ((status.st_mode & 077) != 0) {
    refuse(folder, "is open to other users (mode " + octal(status.st_mode) + "): chmod 700 it");
  }
}

bool is_job_name(std::string_view name) {
  const auto letter_or_digit = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  return !name.empty() && name.size() <= kLongestName && letter_or_digit(name[0]) &&
         std::ranges::all_of(
             name, [&](char c) { return letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

std::string control_socket(const std::string& folder, std::string_view job,
                           std::string_view ending) {
  if (!is_job_name(job)) {
    throw std::runtime_error("'" + std::string(job) + "' is no name of a job");
  }
  return folder + "/" + std::string(job) + std::string(ending);
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    throw std::runtime_error("a socket's path has 1 to " +
                             std::to_string(sizeof address.sun_path - 1) + " bytes, this one has " +
                             std::to_string(path.size()) + ": '" + path + "'");
  }
  path.copy(address.sun_path, path.size());
  return address;
}

bool is_listening(const std::string& path) {
  const sockaddr_un address = unix_address(path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw std::runtime_error(std::string("no socket: ") + std::strerror(errno));
  const int failed =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  close(fd);
  switch (failed) {
    case 0:
    case EAGAIN:  // too many wait for it to accept them
      return true;
    case ENOENT:
    case ECONNREFUSED:
      return false;
    default:
      throw std::runtime_error("cannot reach " + path + ": " + std::strerror(failed));
  }
}

}  // namespace bellows::protocol
