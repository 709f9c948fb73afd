// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/agent_links.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

namespace bellows::elastic {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using protocol::Channel;
using protocol::Message;

namespace {

constexpr auto kGreetingLimit = std::chrono::seconds(10);
constexpr std::size_t kGreetingBytes = 4096;

}  // namespace

AgentLinks::AgentLinks(asio::io_context& io, std::string secret, SilenceWatch::Duration silence,
                       Events events)
    : io_(io),
      secret_(std::move(secret)),
      events_(std::move(events)),
      silence_(silence),
      acceptor_(io),
      beat_timer_(io) {}

void AgentLinks::listen(std::pair<std::uint16_t, std::uint16_t> ports, bool loopback) {
  const asio::ip::address address =
      loopback ? asio::ip::address(asio::ip::address_v4::loopback()) : asio::ip::address_v4::any();
  error_code failed;
  for (std::uint32_t port = ports.first; port <= ports.second; ++port) {
    const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(port));
    acceptor_ = tcp::acceptor(io_);
    acceptor_.open(endpoint.protocol());
    // Agents are children: they must not keep the port when this process dies.
    fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(endpoint, failed);
    if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
    if (!failed) break;
  }
  if (failed) {
    const std::string range = ports.first == ports.second ? std::to_string(ports.first)
                                                          : std::to_string(ports.first) + "-" +
                                                                std::to_string(ports.second);
    throw std::runtime_error("cannot listen on port " + range + ": " + failed.message() +
                             "; give another port or range with --port, or none for any free one");
  }
  accept();
  beat();
}

void AgentLinks::accept() {
  acceptor_.async_accept([this](const error_code& failed, tcp::socket socket) {
    if (failed == asio::error::operation_aborted) return;
    if (!failed) greet(Channel::over(std::move(socket)));
    accept();
  });
}

void AgentLinks::greet(const ChannelPtr& channel) {
  strangers_[channel] = SilenceWatch::Clock::now();
  const auto challenge = std::make_shared<Challenge>();
  channel->limit(kGreetingBytes);
  const std::weak_ptr<Channel> weak = channel;
  channel->start(
      [this, weak, challenge](const Message& message) {
        if (const ChannelPtr alive = weak.lock()) hello(alive, *challenge, message);
      },
      [this, weak](const std::string&) {  // a port scanner, say
        if (const ChannelPtr alive = weak.lock()) strangers_.erase(alive);
      });
  channel->send(challenge->message());
}

void AgentLinks::hello(const ChannelPtr& channel, const Challenge& challenge,
                       const Message& message) {
  Message welcome;
  std::string reason = challenge.check(message, secret_, welcome);
  if (!reason.empty()) {
    refuse(channel, reason);
    return;
  }
  // From here on a refusal is proved to be this job's, as a welcome would be.
  const std::string proof = welcome.text("proof");
  const std::string node = message.text("node");
  if (links_.contains(node)) {
    refuse(channel, "node " + node + " has an agent already", proof);
    return;
  }
  try {
    std::optional<std::uint32_t> returning;
    if (message.head.contains("returning"))
      returning = static_cast<std::uint32_t>(message.number("returning"));
    welcome.head["node_id"] = events_.on_hello(node, returning);
  } catch (const std::runtime_error& unwanted) {
    refuse(channel, unwanted.what(), proof);
    return;
  }
  strangers_.erase(channel);
  links_[node] = channel;
  channel->limit(protocol::kMaxHead + protocol::kMaxBody);
  channel->start(
      [this, node, raw = channel.get()](const Message& received) {
        if (received.type() == "ping") {
          raw->send(Message("pong"));
        } else {
          events_.on_message(node, received);
        }
      },
      [this, node](const std::string& why) { lose(node, why); });
  channel->send(welcome);
}

void AgentLinks::refuse(const ChannelPtr& channel, const std::string& reason,
                        const std::string& proof) {
  const std::string address = channel->remote_address();
  Message refused("refused");
  refused.head["reason"] = reason;
  if (!proof.empty()) refused.head["proof"] = proof;
  channel->send(refused);
  channel->close_when_sent();
  strangers_.erase(channel);
  events_.on_refused(address, reason);
}

void AgentLinks::lose(const std::string& node, const std::string& reason) {
  const auto link = links_.extract(node);
  if (link.empty()) return;
  link.mapped()->close();
  events_.on_lost(node, reason);
}

void AgentLinks::send(const std::string& node, const Message& message) {
  const auto link = links_.find(node);
  if (link != links_.end()) link->second->send(message);
}

void AgentLinks::send_to_all(const Message& message) {
  for (const auto& [node, channel] : links_) channel->send(message);
}

void AgentLinks::beat() {
  beat_timer_.expires_after(silence_.interval());
  beat_timer_.async_wait([this](const error_code& failed) {
    if (failed) return;
    silence_.tick();
    std::vector<std::string> silent;
    for (const auto& [node, channel] : links_) {
      if (silence_.silent(channel->last_heard())) silent.push_back(node);
    }
    const auto seconds = std::chrono::duration<double>(silence_.limit()).count();
    for (const std::string& node : silent) {
      lose(node, "no sign of life for " + std::to_string(static_cast<int>(seconds)) + " s");
    }
    const auto now = SilenceWatch::Clock::now();
    std::erase_if(strangers_, [now](const auto& stranger) {
      if (now - stranger.second < kGreetingLimit) return false;
      stranger.first->close();
      return true;
    });
    beat();
  });
}

void AgentLinks::close() {
  error_code ignored;
  acceptor_.close(ignored);
  beat_timer_.cancel();
  for (const auto& [node, channel] : links_) channel->close();
  links_.clear();
  for (const auto& [channel, since] : strangers_) channel->close();
  strangers_.clear();
}

}  // namespace bellows::elastic
