// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/input.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <thread>
#include <utility>

namespace bellows::elastic {
namespace {

constexpr std::size_t kUnderway = std::size_t{1} << 20;  // read ahead of the rank, at most

}  // namespace

InputReader::InputReader(boost::asio::io_context& io, std::function<void(std::string)> on_input)
    : shared_(new Shared{io, std::move(on_input), Fd(eventfd(0, EFD_CLOEXEC)), {}, {}}) {
  // In the background of a terminal, read then fails instead of stopping the launcher.
  signal(SIGTTIN, SIG_IGN);
  std::thread([shared = shared_] { run(*shared); }).detach();
}

InputReader::~InputReader() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ending = true;  // the thread does not touch the io_context from here on
  shared_->changed.notify_all();
  eventfd_write(shared_->wake.get(), 1);
}

void InputReader::taken(std::size_t bytes) {
  const std::lock_guard lock(shared_->mutex);
  shared_->underway -= std::min(bytes, shared_->underway);
  shared_->changed.notify_all();
}

void InputReader::run(Shared& shared) {
  std::array<char, 65536> buffer;
  while (true) {
    {
      std::unique_lock lock(shared.mutex);
      shared.changed.wait(lock, [&] { return shared.ending || shared.underway < kUnderway; });
      if (shared.ending) return;
    }
    std::array<pollfd, 2> ready{{{STDIN_FILENO, POLLIN, 0}, {shared.wake.get(), POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), -1) < 0 && errno == EINTR) continue;
    if (ready[1].revents != 0) return;
    const ssize_t n = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    std::string bytes(buffer.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    const bool end = bytes.empty();
    const std::lock_guard lock(shared.mutex);
    if (shared.ending) return;
    shared.underway += bytes.size();
    boost::asio::post(shared.io, [on_input = shared.on_input, bytes = std::move(bytes)]() mutable {
      on_input(std::move(bytes));
    });
    if (end) return;
  }
}

}  // namespace bellows::elastic
