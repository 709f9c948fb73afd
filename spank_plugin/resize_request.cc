// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/resize_request.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "spank_plugin/environment.h"

namespace bellows::spank {
namespace {

using Clock = std::chrono::steady_clock;

/// What the program may take beyond the time that it is to wait.
constexpr std::chrono::seconds kMargin{60};
constexpr int kFailed = 1;
constexpr int kSignalBase = 128;

/// srun blocks and handles signals of its own; the program starts with none of that.
class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&files_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  int spawn(pid_t& child, const std::vector<std::string>& command,
            const std::vector<std::string>& environment) const {
    const std::vector<char*> arguments = pointers(command);
    const std::vector<char*> variables = pointers(environment);
    return posix_spawnp(&child, arguments[0], &files_, &attributes_, arguments.data(),
                        variables.data());
  }

 private:
  static std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> list;
    list.reserve(texts.size() + 1);
    for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
    list.push_back(nullptr);
    return list;
  }

  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t files_;
};

/// Waits until `child` has ended; false if it has not by the deadline.
bool ended_by(pid_t child, Clock::time_point deadline, int& status) {
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) {
      status = kFailed << 8;
      return true;
    }
    if (Clock::now() >= deadline) return false;
    usleep(10'000);
  }
}

}  // namespace

std::vector<std::string> command_of(const ResizeRequest& request) {
  return {request.program, "resize", "--job=" + std::to_string(request.job),
          "--nodes=" + request.nodes, "--wait=" + std::to_string(request.wait)};
}

ResizeOutcome run_resize(const ResizeRequest& request) {
  const SpawnSettings settings;
  pid_t child = 0;
  const int error = settings.spawn(child, command_of(request), environment_without_options());
  if (error != 0)
    return {kFailed, "cannot start " + request.program + ": " + std::strerror(error) +
                         " (plugstack.conf: bellows=PATH says where it is)"};
  int status = 0;
  if (!ended_by(child, Clock::now() + std::chrono::seconds(request.wait) + kMargin, status)) {
    kill(child, SIGKILL);
    // A program that can be ended at all is gone within a second.
    ended_by(child, Clock::now() + std::chrono::seconds(1), status);
    return {kFailed, request.program + " did not end within " +
                         std::to_string(request.wait + kMargin.count()) + " seconds; ended it"};
  }
  if (WIFSIGNALED(status)) return {kSignalBase + WTERMSIG(status), ""};
  return {WEXITSTATUS(status), ""};
}

std::string bellows_beside(const std::string& plugin) {
  const std::size_t slash = plugin.rfind('/');
  if (slash != std::string::npos) {
    // PREFIX/lib/bellows/ when installed, lib/ in a build folder.
    for (const char* way : {"/../../bin/bellows", "/../bin/bellows"}) {
      const std::string program = plugin.substr(0, slash) + way;
      if (access(program.c_str(), X_OK) == 0) return program;
    }
  }
  return "bellows";
}

}  // namespace bellows::spank
