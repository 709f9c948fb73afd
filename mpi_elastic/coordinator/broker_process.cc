// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/broker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace bellows::elastic {
namespace {

constexpr int kMostStarts = 6;
constexpr auto kRestartPause = std::chrono::seconds(1);
constexpr int kEndMilliseconds = 8000;  // to give back what it holds, by a slow slurmctld

}  // namespace

BrokerProcess::BrokerProcess(boost::asio::io_context& io, Command command)
    : io_(io), command_(std::move(command)), restart_(io) {
  start();
}

void BrokerProcess::start() {
  ++starts_;
  try {
    std::array<int, 2> ends;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw SpawnError("cannot make a pipe", errno);
    const Fd read(ends[0]);
    words_ = Fd(ends[1]);
    SpawnRequest request;
    request.arguments = {command_.program, "--job=" + command_.job,
                         "--slurm-job=" + command_.slurm_job,
                         "--grace=" + std::to_string(command_.grace_seconds),
                         "--words=" + std::to_string(read.get())};
    if (command_.standalone) request.arguments.emplace_back("--standalone");
    request.environment = own_environment();
    request.null_input = true;
    request.inherited = read.get();
    Process process = spawn(request);
    pid_ = process.pid;
    exit_.emplace(io_, process.pidfd.release());
    await_end();
  } catch (const std::runtime_error& failed) {
    words_ = Fd();
    spdlog::warn("{}: the job is elastic within its allocation only", failed.what());
  }
}

void BrokerProcess::await_end() {
  exit_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& failed) {
                      int status = 0;
                      if (failed || waitpid(pid_, &status, WNOHANG) != pid_) return;
                      exit_.reset();
                      words_ = Fd();
                      pid_ = -1;
                      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;  // the job ends
                      const std::string how =
                          WIFSIGNALED(status)
                              ? "was killed by " + signal_text(WTERMSIG(status))
                              : "ended with exit code " + std::to_string(WEXITSTATUS(status));
                      if (starts_ >= kMostStarts) {
                        spdlog::warn(
                            "bellows-broker {}, once more: the job is elastic within its "
                            "allocation only",
                            how);
                        return;
                      }
                      spdlog::warn("bellows-broker {}; starting it again", how);
                      restart_.expires_after(kRestartPause);
                      restart_.async_wait([this](const boost::system::error_code& aborted) {
                        if (!aborted && !ended_) start();
                      });
                    });
}

void BrokerProcess::end() {
  if (std::exchange(ended_, true)) return;
  restart_.cancel();
  if (pid_ <= 0) return;
  signal(SIGPIPE, SIG_IGN);
  [[maybe_unused]] const auto sent = write(words_.get(), "end\n", 4);
  words_ = Fd();
  pollfd waiting{exit_->native_handle(), POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&waiting, 1, kEndMilliseconds);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) {
    spdlog::warn("bellows-broker does not end; companion jobs of this one end by themselves");
    kill(pid_, SIGKILL);
  }
  waitpid(pid_, nullptr, 0);
  exit_.reset();
}

}  // namespace bellows::elastic
