// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/agent/rank_process.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>

namespace bellows::elastic {
namespace asio = boost::asio;
using boost::system::error_code;

RankProcess::RankProcess(asio::io_context& io, Process process, Events events)
    : process_(std::move(process)),
      events_(std::move(events)),
      pipes_{Pipe{Stream::out, {io, process_.out.release()}, {}},
             Pipe{Stream::err, {io, process_.err.release()}, {}}},
      exit_(io, process_.pidfd.release()),
      input_(io, process_.in.release()) {}

void RankProcess::start() {
  for (Pipe& pipe : pipes_) read(pipe);
  wait_for_exit();
}

void RankProcess::signal(int number) {
  if (running_) kill(-process_.pid, number);
}

void RankProcess::hold_output(bool hold) {
  held_ = hold;
  if (hold) return;
  for (Pipe& pipe : pipes_) read(pipe);
}

void RankProcess::read(Pipe& pipe) {
  if (held_ || ended_ || pipe.reading || !pipe.descriptor.is_open()) return;
  pipe.reading = true;
  pipe.descriptor.async_read_some(
      asio::buffer(pipe.buffer),
      [this, &pipe, self = shared_from_this()](const error_code& failed, std::size_t n) {
        pipe.reading = false;
        if (n > 0) events_.on_output(pipe.stream, std::string(pipe.buffer.data(), n));
        if (ended_) {
          finish();
        } else if (failed) {
          error_code ignored;
          pipe.descriptor.close(ignored);
        } else {
          read(pipe);
        }
      });
}

// What the rank had written when it ended, and no more: processes that it left behind may go on
// writing for ever.
std::string RankProcess::rest_of(Pipe& pipe) {
  int size = 0;
  if (!pipe.descriptor.is_open() || ioctl(pipe.descriptor.native_handle(), FIONREAD, &size) != 0) {
    return "";
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        ::read(pipe.descriptor.native_handle(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

void RankProcess::wait_for_exit() {
  exit_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this, self = shared_from_this()](const error_code& failed) {
                     if (!failed) exited();
                   });
}

bool RankProcess::has_ended() const {
  if (!running_) return true;
  siginfo_t about{};
  // Left unreaped for a moment: its process id, and so its group's, cannot be used again yet.
  return waitid(P_PID, static_cast<id_t>(process_.pid), &about, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         about.si_pid == process_.pid;
}

void RankProcess::exited() {
  if (!has_ended()) {
    wait_for_exit();
    return;
  }
  ended_ = true;
  error_code ignored;
  for (Pipe& pipe : pipes_) pipe.descriptor.cancel(ignored);
  finish();
}

// A read that was under way when the rank ended may have bytes that come before what is left in the
// pipe: its handler comes first, and calls this again.
void RankProcess::finish() {
  for (const Pipe& pipe : pipes_) {
    if (pipe.reading) return;
  }
  kill(-process_.pid, SIGKILL);  // whatever the rank left behind in its group
  error_code ignored;
  for (Pipe& pipe : pipes_) {
    std::string rest = rest_of(pipe);
    if (!rest.empty()) events_.on_output(pipe.stream, std::move(rest));
    pipe.descriptor.close(ignored);
  }
  int status = 0;
  waitpid(process_.pid, &status, 0);
  running_ = false;
  exit_.close(ignored);
  std::size_t untaken = 0;
  for (const std::string& bytes : input_queue_) untaken += bytes.size();
  if (untaken > 0) events_.on_input_taken(untaken);
  input_queue_.clear();
  input_.close(ignored);
  events_.on_exit(status);
}

void RankProcess::write_input(std::string bytes) {
  if (bytes.empty()) return;
  if (!input_.is_open()) {
    events_.on_input_taken(bytes.size());
    return;
  }
  input_queue_.push_back(std::move(bytes));
  if (input_queue_.size() == 1) write_next();
}

void RankProcess::write_next() {
  asio::async_write(input_, asio::buffer(input_queue_.front()),
                    [this, self = shared_from_this()](const error_code& failed, std::size_t) {
                      if (input_queue_.empty()) return;  // the rank has ended meanwhile
                      std::size_t done = input_queue_.front().size();
                      input_queue_.pop_front();
                      error_code ignored;
                      if (failed) {  // it has closed its input: the rest goes nowhere
                        for (const std::string& bytes : input_queue_) done += bytes.size();
                        input_queue_.clear();
                        input_.close(ignored);
                      }
                      events_.on_input_taken(done);
                      if (!input_queue_.empty()) {
                        write_next();
                      } else if (input_ends_) {
                        input_.close(ignored);
                      }
                    });
}

void RankProcess::close_input() {
  input_ends_ = true;
  error_code ignored;
  if (input_queue_.empty()) input_.close(ignored);
}

}  // namespace bellows::elastic
