// SPDX-License-Identifier: Apache-2.0
// Messages over a connected stream socket (TCP or Unix), on one io_context thread.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "protocol/message.h"

namespace bellows::protocol {

/// One end of a connection. Not thread-safe: used from the io_context's thread only. Messages
/// arrive in order. After `on_closed` was called, or `close()`, no handler is called any more.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using OnMessage = std::function<void(Message)>;
  /// `reason` says why the connection ended ("connection closed by the peer", …).
  using OnClosed = std::function<void(const std::string& reason)>;

  explicit Channel(Socket socket);
  /// A TCP socket, with Nagle's delay off.
  static std::shared_ptr<Channel> over(boost::asio::ip::tcp::socket socket);

  /// Begins to read; handlers are called from the io_context. A handler may replace the handlers
  /// (as the end of a handshake does) by calling start again.
  void start(OnMessage on_message, OnClosed on_closed);
  /// Messages of more bytes than this end the connection: for peers that are not trusted (yet).
  void limit(std::size_t bytes) { decoder_.limit(bytes); }
  /// Queues a message; it is sent in order. Nothing happens when the channel is closed.
  void send(const Message& message);
  /// Ends the connection at once; what is queued is lost.
  void close();
  /// Ends the connection when the queue is sent.
  void close_when_sent();

  bool is_open() const { return socket_.is_open(); }
  /// Bytes that wait to be sent.
  std::size_t queued_bytes() const { return queued_bytes_; }
  /// When the last bytes arrived.
  std::chrono::steady_clock::time_point last_heard() const { return last_heard_; }
  /// Addresses of the two ends, e.g. "10.88.0.2:40000"; "" for Unix sockets.
  std::string local_address() const;
  std::string remote_address() const;

 private:
  void read();
  void write();
  void deliver();
  void fail(const std::string& reason);

  Socket socket_;
  Decoder decoder_;
  std::array<char, 65536> chunk_;
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  bool reading_ = false;
  bool closing_ = false;
  std::chrono::steady_clock::time_point last_heard_ = std::chrono::steady_clock::now();
  OnMessage on_message_;
  OnClosed on_closed_;
};

}  // namespace bellows::protocol
