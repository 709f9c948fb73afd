// SPDX-License-Identifier: Apache-2.0
#include "protocol/channel.h"

#include <fcntl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

namespace bellows::protocol {
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

std::string address_text(const asio::generic::stream_protocol::endpoint& generic) {
  const int family = generic.protocol().family();
  if (family != AF_INET && family != AF_INET6) return "";
  tcp::endpoint endpoint;
  if (generic.size() > endpoint.capacity()) return "";
  endpoint.resize(generic.size());
  std::memcpy(endpoint.data(), generic.data(), generic.size());
  return endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
}

}  // namespace

// A child process that inherited the connection would keep it open after this one has died.
Channel::Channel(Socket socket) : socket_(std::move(socket)) {
  fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
}

std::shared_ptr<Channel> Channel::over(tcp::socket socket) {
  boost::system::error_code ignored;  // a slower connection is still a connection
  socket.set_option(tcp::no_delay(true), ignored);
  return std::make_shared<Channel>(Socket(std::move(socket)));
}

void Channel::start(OnMessage on_message, OnClosed on_closed) {
  on_message_ = std::move(on_message);
  on_closed_ = std::move(on_closed);
  if (!reading_) {
    reading_ = true;
    last_heard_ = std::chrono::steady_clock::now();
    read();
  }
}

void Channel::read() {
  socket_.async_read_some(
      asio::buffer(chunk_),
      [this, self = shared_from_this()](const boost::system::error_code& failed, std::size_t n) {
        if (!socket_.is_open()) return;
        if (failed) {
          fail(failed == asio::error::eof ? "connection closed by the peer" : failed.message());
          return;
        }
        last_heard_ = std::chrono::steady_clock::now();
        decoder_.feed({chunk_.data(), n});
        deliver();
        if (socket_.is_open()) read();
      });
}

void Channel::deliver() {
  try {
    while (socket_.is_open()) {
      std::optional<Message> message = decoder_.next();
      if (!message) return;
      const OnMessage handler = on_message_;  // the handler may replace itself
      handler(std::move(*message));
    }
  } catch (const ProtocolError& bad) {
    fail(bad.what());
  }
}

void Channel::send(const Message& message) {
  if (!socket_.is_open() || closing_) return;
  queue_.push_back(encode(message));
  queued_bytes_ += queue_.back().size();
  if (queue_.size() == 1) write();
}

void Channel::write() {
  asio::async_write(
      socket_, asio::buffer(queue_.front()),
      [this, self = shared_from_this()](const boost::system::error_code& failed, std::size_t) {
        if (!socket_.is_open()) return;
        if (failed) {
          fail(failed.message());
          return;
        }
        queued_bytes_ -= queue_.front().size();
        queue_.pop_front();
        if (!queue_.empty()) {
          write();
        } else if (closing_) {
          close();
        }
      });
}

void Channel::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  on_message_ = nullptr;
  on_closed_ = nullptr;
}

void Channel::close_when_sent() {
  closing_ = true;
  if (queue_.empty()) close();
}

void Channel::fail(const std::string& reason) {
  const OnClosed handler = std::move(on_closed_);
  close();
  if (handler) handler(reason);
}

std::string Channel::local_address() const {
  boost::system::error_code failed;
  const auto endpoint = socket_.local_endpoint(failed);
  return failed ? "" : address_text(endpoint);
}

std::string Channel::remote_address() const {
  boost::system::error_code failed;
  const auto endpoint = socket_.remote_endpoint(failed);
  return failed ? "" : address_text(endpoint);
}

}  // namespace bellows::protocol
