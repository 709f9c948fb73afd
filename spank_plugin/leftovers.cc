// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>

namespace bellows::spank {
namespace {

/// Deeper trees than this are no job folder of ours.
constexpr int kDeepest = 64;
/// The report of the child; the rest of a longer one is dropped.
constexpr std::size_t kLongestReport = 2000;

using Clock = std::chrono::steady_clock;

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

/// The names in an open folder, read before any of them is removed.
std::vector<std::string> names_in(DIR* folder) {
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

/// Opens the folder `name` in `parent` without following a link; null if it is none.
Folder open_folder(int parent, const char* name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = openat(parent, name, kFlags);
  if (fd < 0 && errno == EACCES) {
    if (fchmodat(parent, name, 0700, 0) == 0) fd = openat(parent, name, kFlags);
    if (fd < 0) errno = EACCES;
  }
  if (fd < 0) return nullptr;
  Folder folder(fdopendir(fd));
  if (!folder) close(fd);
  return folder;
}

class Remover {
 public:
  /// Removes `name` in `parent`, a folder on file system `device`, with all that is in it.
  bool remove(int parent, const std::string& name, dev_t device, int depth = 0) {
    struct stat status{};
    if (fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      return errno == ENOENT || failed(name);
    if (!S_ISDIR(status.st_mode))
      return unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT || failed(name);
    errno = EXDEV;
    if (status.st_dev != device) return failed(name);
    errno = ELOOP;
    if (depth > kDeepest) return failed(name);
    const Folder folder = open_folder(parent, name.c_str());
    if (!folder) return errno == ENOENT || failed(name);
    fchmod(dirfd(folder.get()), 0700);
    bool all = true;
    for (const std::string& inner : names_in(folder.get()))
      all = remove(dirfd(folder.get()), inner, device, depth + 1) && all;
    if (!all) return false;
    return unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT || failed(name);
  }

  bool failed(const std::string& name) {
    problems_ += name + ": " + std::strerror(errno) + "\n";
    return false;
  }

  const std::string& problems() const { return problems_; }

 private:
  std::string problems_;
};

/// In the child: gives up every right but those of the job's owner.
bool become(const EndedJob& job) {
  if (geteuid() != 0) return job.uid == geteuid();
  if (job.uid == 0) return true;
  return setgroups(1, &job.gid) == 0 && setresgid(job.gid, job.gid, job.gid) == 0 &&
         setresuid(job.uid, job.uid, job.uid) == 0;
}

/// In the child: removes, and reports "REMOVED\nPROBLEMS".
std::string remove_all(const EndedJob& job, const std::vector<std::string>& folders) {
  if (!become(job)) return std::string("0\ncannot act as the job's owner: ") + std::strerror(errno);
  const std::string prefix =
      "bellows-" + std::to_string(job.uid) + "-" + std::to_string(job.id) + "-";
  Remover remover;
  int removed = 0;
  for (const std::string& path : folders) {
    const Folder folder(opendir(path.c_str()));
    struct stat status{};
    if (!folder || fstat(dirfd(folder.get()), &status) != 0) continue;
    for (const std::string& name : names_in(folder.get())) {
      if (name.size() <= prefix.size() || name.compare(0, prefix.size(), prefix) != 0) continue;
      struct stat found{};
      if (fstatat(dirfd(folder.get()), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (!S_ISDIR(found.st_mode) || found.st_uid != job.uid) continue;
      if (remover.remove(dirfd(folder.get()), name, status.st_dev)) ++removed;
    }
  }
  return std::to_string(removed) + "\n" + remover.problems();
}

void write_report(int fd, const std::string& report) {
  // Less than a pipe holds, so that this cannot wait for a reader.
  [[maybe_unused]] const ssize_t written =
      write(fd, report.data(), std::min(report.size(), kLongestReport));
}

/// What the child wrote until it ended, or until `deadline`.
std::string read_report(int fd, Clock::time_point deadline) {
  std::string report;
  char buffer[512];
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{fd, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return report;
    const ssize_t size = read(fd, buffer, sizeof buffer);
    if (size <= 0) return report;
    report.append(buffer, static_cast<std::size_t>(size));
  }
}

Removal parse_report(const std::string& report) {
  Removal removal;
  const std::size_t line = report.find('\n');
  if (line == std::string::npos) {
    removal.problems = "gave up";
    return removal;
  }
  removal.removed = std::atoi(report.c_str());
  removal.problems = report.substr(line + 1);
  return removal;
}

}  // namespace

Removal remove_leftovers(const EndedJob& job, const std::vector<std::string>& folders,
                         int seconds) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0)
    return {0, std::string("cannot make a pipe: ") + std::strerror(errno)};
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pipe_ends[0]);
    write_report(pipe_ends[1], remove_all(job, folders));
    _exit(0);
  }
  close(pipe_ends[1]);
  Removal removal;
  if (child < 0) {
    removal.problems = std::string("cannot fork: ") + std::strerror(errno);
  } else {
    removal = parse_report(
        read_report(pipe_ends[0], Clock::now() + std::chrono::seconds(std::max(1, seconds))));
    kill(child, SIGKILL);
    // A child that has reported, or that can be ended at all, is gone within this second.
    for (int i = 0; i < 100 && waitpid(child, nullptr, WNOHANG) == 0; ++i) usleep(10'000);
  }
  close(pipe_ends[0]);
  return removal;
}

}  // namespace bellows::spank
