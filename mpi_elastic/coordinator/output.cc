// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/output.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

namespace bellows::elastic {
namespace {

// A line without end is written in pieces of this size.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

// 0, or why not all could be written.
int write_all(int fd, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n >= 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {  // somebody else made the terminal non-blocking
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

std::string LineTagger::add(std::uint64_t rank, int stream, const std::string& bytes) {
  if (!tag_) return bytes;
  std::string& partial = partial_[{rank, stream}];
  partial += bytes;
  std::string tagged;
  std::size_t start = 0;
  while (true) {
    const std::size_t end = partial.find('\n', start);
    if (end == std::string::npos) break;
    tagged += "[" + std::to_string(rank) + "] " + partial.substr(start, end + 1 - start);
    start = end + 1;
  }
  partial.erase(0, start);
  if (partial.size() > kLongestLine) tagged += finish(rank, stream);
  return tagged;
}

std::string LineTagger::finish(std::uint64_t rank, int stream) {
  const auto found = partial_.find({rank, stream});
  if (found == partial_.end() || found->second.empty()) return "";
  std::string line = "[" + std::to_string(rank) + "] " + found->second + "\n";
  partial_.erase(found);
  return line;
}

OutputWriter::~OutputWriter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;  // once the queue is empty
    changed_.notify_all();
  }
  thread_.join();
}

void OutputWriter::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && idle_; });
}

void OutputWriter::write(int fd, std::string bytes, std::function<void()> written) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({fd, std::move(bytes), std::move(written)});
  changed_.notify_all();
}

void OutputWriter::run() {
  bool broken[3] = {false, false, false};
  bool told = false;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    idle_ = false;
    lock.unlock();
    if (!broken[item.fd]) {
      const int failed = write_all(item.fd, item.bytes);
      // Nobody can read it any more, or there may be room again later (a full disk).
      broken[item.fd] = failed == EPIPE || failed == EBADF;
      if (failed != 0 && !broken[item.fd] && !std::exchange(told, true)) {
        spdlog::warn("cannot write to {}: {}; output is lost",
                     item.fd == STDOUT_FILENO ? "stdout" : "stderr", std::strerror(failed));
      }
    }
    if (item.written) boost::asio::post(io_, std::move(item.written));
    lock.lock();
    idle_ = true;
    changed_.notify_all();
  }
}

}  // namespace bellows::elastic
