// SPDX-License-Identifier: Apache-2.0
#include "scheduler/picture/gnuplot.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "protocol/fd.h"

extern char** environ;

namespace bellows::scheduler {
namespace {

using protocol::Fd;

Fd memory_file(const char* name) {
  Fd file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid()) throw std::runtime_error(std::string("no memory: ") + std::strerror(errno));
  return file;
}

void write_all(const Fd& file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file.get(), text.data() + done, text.size() - done);
    if (n <= 0) throw std::runtime_error(std::string("no memory: ") + std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
  lseek(file.get(), 0, SEEK_SET);
}

std::string contents(const Fd& file) {
  lseek(file.get(), 0, SEEK_SET);
  std::string text;
  std::array<char, 65536> part{};
  for (ssize_t n = 0; (n = ::read(file.get(), part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  return text;
}

// Files instead of pipes: nobody waits for anybody.
pid_t start(const Fd& in, const Fd& out, const Fd& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.get(), STDERR_FILENO);
  std::string program = "gnuplot", option = "-d";  // without the user's own settings
  std::array<char*, 3> words = {program.data(), option.data(), nullptr};
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, program.c_str(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw std::runtime_error(std::string("cannot start gnuplot, which draws plots: install gnuplot "
                                         "(Debian: gnuplot-nox): ") +
                             std::strerror(failed));
  }
  return pid;
}

}  // namespace

std::string run_gnuplot(const std::string& script, std::chrono::milliseconds limit) {
  const Fd in = memory_file("script"), out = memory_file("plot"), err = memory_file("errors");
  write_all(in, script);
  const pid_t pid = start(in, out, err);
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{process.get(), POLLIN, 0};
  const bool late = process.valid() && poll(&ended, 1, static_cast<int>(limit.count())) == 0;
  if (late) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (late) {
    throw std::runtime_error("gnuplot was not done within " + std::to_string(limit.count() / 1000) +
                             " s");
  }
  std::string plot = contents(out);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !plot.empty()) return plot;
  throw std::runtime_error("gnuplot cannot draw this: " + contents(err));
}

std::string gnuplot_string(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    quoted += control ? '?' : c;
    if (c == '\'') quoted += c;
  }
  return quoted + "'";
}

}  // namespace bellows::scheduler
