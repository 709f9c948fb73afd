// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/common/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

extern char** environ;

namespace bellows::elastic {
namespace {

struct Pipe {
  Fd read, write;
};

Pipe make_pipe() {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw SpawnError(std::string("cannot make a pipe: ") + std::strerror(errno), errno);
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

void set_nonblocking(const Fd& fd) {
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

std::vector<char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Where the child failed, as it tells through the pipe that exec closes.
struct ChildFailure {
  enum Where : int { directory, exec, other } where;
  int code;
};

// Runs in the child, between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(const SpawnRequest& request, const char* file, char* const* arguments,
                         char* const* environment, const std::array<int, 3>& standard, int report,
                         pid_t parent) {
  const auto fail = [report](ChildFailure::Where where) {
    const ChildFailure failure{where, errno};
    (void)!write(report, &failure, sizeof failure);
    _exit(127);
  };
  setsid();
  if (request.die_with_parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // it ended before prctl
  }
  for (int i = 0; i < 3; ++i) {
    if (standard[i] >= 0 && dup2(standard[i], i) < 0) fail(ChildFailure::other);
  }
  if (request.cpus && sched_setaffinity(0, sizeof *request.cpus, &*request.cpus) != 0) {
    fail(ChildFailure::other);
  }
  if (!request.directory.empty() && chdir(request.directory.c_str()) != 0) {
    fail(ChildFailure::directory);
  }
  sigset_t none;
  sigemptyset(&none);
  if (request.block_sigterm) sigaddset(&none, SIGTERM);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGXFSZ, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    signal(number, SIG_DFL);
  }
  if (request.ignore_sigpipe) signal(SIGPIPE, SIG_IGN);
  if (request.inherited >= 0) fcntl(request.inherited, F_SETFD, 0);
  execve(file, arguments, environment);
  fail(ChildFailure::exec);
  _exit(127);
}

bool is_executable_file(const std::string& path) {
  struct stat about;
  return stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

std::size_t find_variable(const std::vector<std::string>& environment, const std::string& name) {
  const std::string start = name + "=";
  const auto found = std::find_if(environment.begin(), environment.end(),
                                  [&](const std::string& v) { return v.starts_with(start); });
  return static_cast<std::size_t>(found - environment.begin());
}

}  // namespace

std::pair<Fd, Fd> socket_pair() {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw SpawnError(std::string("cannot make a socket: ") + std::strerror(errno), errno);
  }
  Fd first(ends[0]), second(ends[1]);
  set_nonblocking(first);
  return {std::move(first), std::move(second)};
}

std::string find_program(const std::string& name, const std::vector<std::string>& environment) {
  if (name.empty()) throw SpawnError("no program named", ENOENT);
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), F_OK) != 0) {
      throw SpawnError("cannot start '" + name + "': " + std::strerror(errno), errno);
    }
    if (!is_executable_file(name)) {
      throw SpawnError("cannot start '" + name + "': not an executable file", EACCES);
    }
    return name;
  }
  const char* path = get_variable(environment, "PATH");
  std::string_view rest = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const std::size_t colon = rest.find(':');
    const std::string folder(rest.substr(0, colon));
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (is_executable_file(file)) return file;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  throw SpawnError("cannot start '" + name + "': no such program in PATH", ENOENT);
}

Process spawn(const SpawnRequest& request) {
  // A relative path is meant from the folder in which the program will run.
  std::string file;
  const std::string& name = request.arguments.at(0);
  if (!request.directory.empty() && name.find('/') != std::string::npos && name[0] != '/') {
    file = find_program(request.directory + "/" + name, request.environment);
  } else {
    file = find_program(name, request.environment);
  }
  const std::vector<char*> arguments = c_strings(request.arguments);
  const std::vector<char*> environment = c_strings(request.environment);

  Pipe report = make_pipe();
  Pipe in, out, err;
  Fd null;
  std::array<int, 3> standard{-1, -1, -1};
  if (request.pipes) {
    in = make_pipe();
    out = make_pipe();
    err = make_pipe();
    standard = {in.read.get(), out.write.get(), err.write.get()};
  } else if (request.null_input) {
    null = Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    standard[0] = null.get();
  }

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw SpawnError(std::string("cannot fork: ") + std::strerror(errno), errno);
  if (pid == 0) {
    become(request, file.c_str(), arguments.data(), environment.data(), standard,
           report.write.get(), parent);
  }

  report.write = Fd();
  ChildFailure failure{};
  ssize_t n;
  do {
    n = read(report.read.get(), &failure, sizeof failure);
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof failure)) {
    waitpid(pid, nullptr, 0);
    const std::string reason = std::strerror(failure.code);
    switch (failure.where) {
      case ChildFailure::directory:
        throw SpawnError("cannot enter folder '" + request.directory + "': " + reason,
                         failure.code);
      case ChildFailure::exec:
        throw SpawnError("cannot start '" + request.arguments[0] + "': " + reason, failure.code);
      default:
        throw SpawnError("cannot prepare '" + request.arguments[0] + "': " + reason, failure.code);
    }
  }

  Process process;
  process.pid = pid;
  process.pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  fcntl(process.pidfd.get(), F_SETFD, FD_CLOEXEC);
  if (request.pipes) {
    process.in = std::move(in.write);
    process.out = std::move(out.read);
    process.err = std::move(err.read);
    set_nonblocking(process.in);
    set_nonblocking(process.out);
    set_nonblocking(process.err);
  }
  return process;
}

// /proc/PID/stat: the 3rd field, after the name in brackets, is the state, the 22nd the start.
std::int64_t process_started(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  std::int64_t started = 0;
  fields >> field;
  if (field == "Z" || field == "X") return 0;
  for (int i = 4; i < 22; ++i) fields >> field;
  return fields >> started ? started : 0;
}

std::string signal_text(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

void set_variable(std::vector<std::string>& environment, const std::string& name,
                  const std::string& value) {
  const std::size_t at = find_variable(environment, name);
  if (at == environment.size()) {
    environment.push_back(name + "=" + value);
  } else {
    environment[at] = name + "=" + value;
  }
}

void set_default(std::vector<std::string>& environment, const std::string& name,
                 const std::string& value) {
  if (find_variable(environment, name) == environment.size()) {
    environment.push_back(name + "=" + value);
  }
}

const char* get_variable(const std::vector<std::string>& environment, const std::string& name) {
  const std::size_t at = find_variable(environment, name);
  return at == environment.size() ? nullptr : environment[at].c_str() + name.size() + 1;
}

void remove_variables(std::vector<std::string>& environment, const std::string& prefix) {
  std::erase_if(environment, [&](const std::string& v) { return v.starts_with(prefix); });
}

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** v = environ; *v != nullptr; ++v) variables.emplace_back(*v);
  return variables;
}

}  // namespace bellows::elastic
