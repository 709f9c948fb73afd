// SPDX-License-Identifier: Apache-2.0
// A Unix socket at which a process of a running job takes requests of the job's owner: bellows-run
// (status, resize, leave), bellows-broker (nodes).
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "protocol/control_socket.h"
#include "protocol/message.h"

namespace bellows::protocol {

struct ControlLimits {
  /// For a client to send its request, and for it to take the answer. Then it is dropped.
  std::chrono::milliseconds patience{10'000};
  std::size_t clients = 64;
  std::size_t request_bytes = std::size_t{256} << 10;
};

/// Listens on the Unix socket of a job (mode 0600, see protocol/control_socket.h) and hands the
/// requests of this user's and root's processes to a handler. One request for each connection; the
/// client closes it. Nothing that a client does can block or end this process. Everything happens
/// on the thread of the io_context.
class ControlServer {
 public:
  /// Answers one request, now or later. Only the first call counts; it does nothing when the client
  /// has gone or the server has been closed, and may outlive the server.
  using Reply = std::function<void(Message answer)>;
  /// What it throws (std::exception) becomes the answer "refused". It may close the server.
  using Handler = std::function<void(const Message& request, Reply reply)>;

  /// Makes the folder when it is absent, and takes the place of a socket that a dead launcher left.
  /// Throws std::runtime_error: the folder cannot be trusted, another process has this name.
  /// `ending`: which of the job's sockets, see protocol/control_socket.h.
  ControlServer(boost::asio::io_context& io, const std::string& job, Handler handler,
                ControlLimits limits = {}, std::string_view ending = kControlSocketEnding);
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  /// Closes.
  ~ControlServer();

  const std::string& path() const;
  /// Removes the socket and answers what is open with "refused". No handler is called from now on,
  /// and nothing keeps the io_context running.
  void close();

 private:
  class Desk;
  std::shared_ptr<Desk> desk_;
};

}  // namespace bellows::protocol
