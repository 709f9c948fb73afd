// SPDX-License-Identifier: Apache-2.0
// A folder for control sockets, jobs that answer there, and a client without manners.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "protocol/control_server.h"
#include "protocol/control_socket.h"
#include "protocol/fd.h"

namespace bellows::test {

using protocol::ControlLimits;
using protocol::ControlServer;
using protocol::Message;
namespace fs = std::filesystem;

/// Long enough for any machine; what shall happen happens much earlier.
inline constexpr std::chrono::milliseconds kPlenty{20'000};

/// An empty folder, which $BELLOWS_CONTROL_DIR names.
class ControlTest : public testing::Test {
 protected:
  ControlTest() {
    std::string name = "/tmp/bellows-control-test-XXXXXX";
    folder_ = mkdtemp(name.data());
    setenv("BELLOWS_CONTROL_DIR", folder_.c_str(), 1);
    unsetenv("SLURM_JOB_ID");
  }
  ~ControlTest() override {
    unsetenv("BELLOWS_CONTROL_DIR");
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  const std::string& folder() const { return folder_; }
  std::string socket_of(const std::string& job) const { return folder_ + "/" + job + ".sock"; }

 private:
  std::string folder_;
};

/// A launcher: its control server on a thread of its own.
class Launcher {
 public:
  explicit Launcher(const std::string& job, ControlServer::Handler handler,
                    ControlLimits limits = {})
      : server_(std::in_place, io_, job, std::move(handler), limits),
        thread_([this] { io_.run(); }) {}
  // The thread's end shows that a closed server leaves nothing to do.
  ~Launcher() {
    run([this] { server_.reset(); });
    keep_.reset();
    thread_.join();
  }
  /// On the launcher's thread; returns when it is done.
  void run(const std::function<void()>& work) {
    std::promise<void> done;
    boost::asio::post(io_, [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  void close() {
    run([this] { server_->close(); });
  }
  /// From within a handler.
  void close_now() { server_->close(); }
  const std::string& path() const { return server_->path(); }

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keep_{
      io_.get_executor()};
  std::optional<ControlServer> server_;
  std::thread thread_;
};

inline Message done(const std::string& text) {
  Message message("done");
  message.head["text"] = text;
  return message;
}

inline Message request(const char* type) {
  Message message(type);
  message.head["version"] = protocol::kVersion;
  return message;
}

/// Sends what it is told to, and reads what comes.
class RawClient {
 public:
  explicit RawClient(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = protocol::unix_address(path);
    connected_ =
        connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const timeval limit{kPlenty.count() / 1000, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  bool connected() const { return connected_; }
  /// Whether all was sent.
  bool send(std::string_view bytes) const {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  /// The next message; none when the connection ends (or nothing comes for too long).
  std::optional<Message> receive() {
    std::array<char, 4096> chunk;
    while (true) {
      if (auto message = decoder_.next()) return message;
      const ssize_t got = recv(fd_.get(), chunk.data(), chunk.size(), 0);
      if (got <= 0) {
        timed_out_ = got < 0 && errno == EAGAIN;
        return std::nullopt;
      }
      decoder_.feed({chunk.data(), static_cast<std::size_t>(got)});
    }
  }
  /// Whether the other side ends the connection, without a word.
  bool is_dropped() { return !receive() && !timed_out_; }

 private:
  protocol::Fd fd_;
  protocol::Decoder decoder_;
  bool connected_ = false;
  bool timed_out_ = false;
};

}  // namespace bellows::test
