// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/control_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "protocol/control_socket.h"

namespace bellows::scheduler {
using protocol::Message;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kConnectRetry = std::chrono::milliseconds(20);

std::string seconds_text(std::chrono::milliseconds limit) {
  const auto tenths = limit.count() / 100;
  return std::to_string(tenths / 10) + (tenths % 10 ? "." + std::to_string(tenths % 10) : "") +
         " s";
}

// One request over a connection of its own.
class Exchange {
 public:
  Exchange(const std::string& path, std::chrono::milliseconds limit)
      : path_(path), limit_(limit), end_(Clock::now() + limit) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() {
    if (fd_ >= 0) close(fd_);
  }

  void connect() {
    const sockaddr_un address = protocol::unix_address(path_);
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0) throw NoAnswer(std::string("no socket: ") + std::strerror(errno));
    while (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      switch (errno) {
        case EINTR:
          break;
        case EAGAIN:  // its queue is full; there is nothing that could be polled
          if (Clock::now() + kConnectRetry >= end_) {
            throw NoAnswer("bellows-run takes no connection at " + path_);
          }
          std::this_thread::sleep_for(kConnectRetry);
          break;
        case ENOENT:
          throw NoAnswer("no bellows-run listens at " + path_);
        case ECONNREFUSED:
          throw NoAnswer("the bellows-run that listened at " + path_ + " is gone");
        default:
          throw NoAnswer("cannot reach " + path_ + ": " + std::strerror(errno));
      }
    }
    check_peer();
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      } else if (sent < 0 && errno == EAGAIN) {
        await(POLLOUT);
      } else if (sent < 0 && errno != EINTR) {
        return;  // it has closed the connection, and may have said why
      }
    }
  }

  Message receive() {
    protocol::Decoder decoder;
    std::array<char, 65536> chunk;
    while (true) {
      const ssize_t got = recv(fd_, chunk.data(), chunk.size(), 0);
      if (got > 0) {
        decoder.feed({chunk.data(), static_cast<std::size_t>(got)});
        if (auto message = decoder.next()) return std::move(*message);
        check_time();  // bytes may come for ever
      } else if (got < 0 && errno == EAGAIN) {
        await(POLLIN);
      } else if (got == 0 || errno != EINTR) {
        throw NoAnswer("bellows-run closed the connection at " + path_ +
                       " without an answer; has the job ended?");
      }
    }
  }

 private:
  // Whoever listens could tell anything. Root may ask in every user's jobs.
  void check_peer() const {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
      throw NoAnswer("cannot tell who listens at " + path_ + ": " + std::strerror(errno));
    }
    if (peer.uid != geteuid() && geteuid() != 0) {
      throw NoAnswer("the process that listens at " + path_ + " is user " +
                     std::to_string(peer.uid) + "'s, not yours");
    }
  }

  std::int64_t check_time() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
    if (left > 0) return left;
    throw Overdue("bellows-run has not answered within " + seconds_text(limit_) + " at " + path_);
  }

  void await(short what) const {
    const std::int64_t left = check_time();
    pollfd waiting{fd_, what, 0};
    poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 1'000'000)));
  }

  const std::string& path_;
  std::chrono::milliseconds limit_;
  Clock::time_point end_;
  int fd_ = -1;
};

}  // namespace

Message ControlClient::ask(Message request, Milliseconds limit) const {
  request.head["version"] = protocol::kVersion;
  Exchange exchange(socket_, limit);
  exchange.connect();
  try {
    exchange.send(protocol::encode(request));
    return exchange.receive();
  } catch (const protocol::ProtocolError& garbage) {
    throw NoAnswer(socket_ + ": " + garbage.what());
  }
}

}  // namespace bellows::scheduler
