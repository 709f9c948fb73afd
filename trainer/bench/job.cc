// SPDX-License-Identifier: Apache-2.0
#include "trainer/bench/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "scheduler/command/control_client.h"
#include "scheduler/command/jobs.h"

namespace bellows::bench {
using protocol::Message;
using scheduler::ControlClient;

namespace {

volatile std::sig_atomic_t stop_signal = 0;
constexpr auto kStopLimit = std::chrono::seconds(60);
constexpr ControlClient::Milliseconds kAnswerLimit{10'000};

[[noreturn]] void become(std::vector<char*>& arguments, const char* output, pid_t parent,
                         int failed) {
  // Our end, by kill -9 too, is told to the job, so that it does not go on for nobody.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // that was before prctl
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  const int in = open("/dev/null", O_RDONLY);
  const int out = output != nullptr ? open(output, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
  if (in >= 0 && dup2(in, STDIN_FILENO) >= 0 &&
      (output == nullptr ||
       (out >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(STDOUT_FILENO, STDERR_FILENO) >= 0)))
    execvp(arguments[0], arguments.data());
  const int reason = errno;
  (void)!write(failed, &reason, sizeof reason);
  _exit(127);
}

/// 0 and the process, or an error number.
int start(std::vector<std::string>& command, const char* output, pid_t& process) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  int pipe_ends[2];  // closed by an exec that succeeds
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return errno;
  const protocol::Fd read_end(pipe_ends[0]);
  protocol::Fd write_end(pipe_ends[1]);
  const pid_t parent = getpid();
  process = fork();
  if (process == 0) become(arguments, output, parent, write_end.get());
  if (process < 0) return errno;
  write_end = protocol::Fd();
  int reason = 0;
  ssize_t got = 0;
  while ((got = read(read_end.get(), &reason, sizeof reason)) < 0 && errno == EINTR) continue;
  if (got != sizeof reason) return 0;
  waitpid(process, nullptr, 0);
  process = 0;
  return reason;
}

int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

std::string last_line(const std::string& file) {
  std::ifstream in(file);
  std::string line, last;
  while (std::getline(in, line))
    if (!line.empty()) last = line;
  return last;
}

std::string how(int status) {
  return WIFSIGNALED(status) ? std::string("by ") + strsignal(WTERMSIG(status))
                             : "with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action{};
  action.sa_handler = [](int number) { stop_signal = number; };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

Job::Job(std::vector<std::string> command, const std::string& output) : output_(output) {
  if (const int failed = start(command, output.c_str(), process_); failed != 0)
    throw BenchError(command[0] + " cannot be started: " + std::strerror(failed));
  watch_ = protocol::Fd(static_cast<int>(syscall(SYS_pidfd_open, process_, 0)));
}

Job::~Job() {
  try {
    stop();
  } catch (const BenchError&) {
    process_ = 0;  // it was killed
  }
}

bool Job::ended_by(Clock::time_point when) {
  while (!status_) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(when - Clock::now()).count();
    pollfd ended{watch_.get(), POLLIN, 0};
    const int found = poll(&ended, 1, static_cast<int>(std::clamp<long>(left, 0, 1000)));
    if (found > 0) status_ = wait_for(process_);
    if (found == 0 && left <= 0) return false;
  }
  return true;
}

void Job::check_running() {
  if (stop_signal != 0) throw BenchError(std::string("stopped by ") + strsignal(stop_signal));
  if (!ended_by(Clock::now())) return;
  throw BenchError("the program ended " + how(*status_) +
                   " before all was measured; its last line: " + last_line(output_) + " (" +
                   output_ + " has the others)");
}

/// Its name ends with its process number.
std::string Job::socket() {
  const std::string number = std::to_string(process_);
  for (const scheduler::Job& job : scheduler::running_jobs())
    if (job.name.ends_with("." + number) || job.name.ends_with("-" + number)) return job.socket;
  return "";
}

std::optional<Message> Job::status() {
  check_running();
  try {
    const std::string path = socket();
    if (path.empty()) return std::nullopt;
    Message answer = ControlClient(path).ask(Message("status"), kAnswerLimit);
    if (answer.type() == "status") return answer;
  } catch (const scheduler::NoAnswer&) {
    check_running();
  }
  return std::nullopt;
}

void Job::resize(int ranks, Clock::time_point deadline) {
  const std::string path = socket();
  Message request("resize");
  request.head["ranks"] = ranks;
  request.head["wait"] = true;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  try {
    const Message answer =
        ControlClient(path).ask(std::move(request), std::max(left, std::chrono::milliseconds(1)));
    if (answer.type() == "done") return;
    throw BenchError("no world of " + std::to_string(ranks) + " ranks: " + answer.text("reason"));
  } catch (const scheduler::NoAnswer& none) {
    check_running();
    throw BenchError("no world of " + std::to_string(ranks) + " ranks: " + none.what());
  }
}

void Job::stop() {
  if (status_ || process_ == 0) return;
  kill(process_, SIGTERM);
  if (ended_by(Clock::now() + kStopLimit)) return;
  kill(process_, SIGKILL);
  status_ = wait_for(process_);
  throw BenchError("bellows-run did not end within a minute, and was killed");
}

int run_program(std::vector<std::string> command) {
  pid_t process = 0;
  if (start(command, nullptr, process) != 0) return 127;
  const int status = wait_for(process);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string sibling(const std::string& name) {
  std::error_code failed;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path() / name;
  return std::filesystem::exists(path, failed) ? path.string() : name;
}

}  // namespace bellows::bench
