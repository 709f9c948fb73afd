// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/input.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>

namespace bellows::elastic {
namespace {

constexpr std::size_t kUnderway = std::size_t{1} << 20;  // read ahead of the rank, at most

}  // namespace

InputReader::InputReader(boost::asio::io_context& io, std::function<void(std::string)> on_input)
    : io_(io), on_input_(std::move(on_input)), wake_(eventfd(0, EFD_CLOEXEC)) {
  // In the background of a terminal, read then fails instead of stopping the launcher.
  signal(SIGTTIN, SIG_IGN);
  thread_ = std::thread([this] { run(); });
}

InputReader::~InputReader() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void InputReader::taken(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  underway_ -= std::min(bytes, underway_);
  changed_.notify_all();
}

void InputReader::run() {
  std::array<char, 65536> buffer;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || underway_ < kUnderway; });
      if (ending_) return;
    }
    std::array<pollfd, 2> ready{{{STDIN_FILENO, POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), -1) < 0 && errno == EINTR) continue;
    if (ready[1].revents != 0) return;
    const ssize_t n = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    std::string bytes(buffer.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    const bool end = bytes.empty();
    {
      const std::lock_guard lock(mutex_);
      underway_ += bytes.size();
    }
    boost::asio::post(io_,
                      [this, bytes = std::move(bytes)]() mutable { on_input_(std::move(bytes)); });
    if (end) return;
  }
}

}  // namespace bellows::elastic
