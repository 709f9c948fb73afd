// SPDX-License-Identifier: Apache-2.0
// The coordinator's connections to its agents: listens, checks who comes, hears when one is lost.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mpi_elastic/common/greeting.h"
#include "mpi_elastic/common/silence.h"
#include "protocol/channel.h"

namespace bellows::elastic {

class AgentLinks {
 public:
  struct Events {
    /// A node's agent has proved itself: returns the node's id, or throws std::runtime_error with
    /// the reason for which it is not wanted. `returning`: the id that it was given before, by a
    /// launcher that has died since.
    std::function<std::uint32_t(const std::string& node, std::optional<std::uint32_t> returning)>
        on_hello;
    std::function<void(const std::string& node, const protocol::Message&)> on_message;
    std::function<void(const std::string& node, const std::string& reason)> on_lost;
    /// A connection that was turned away.
    std::function<void(const std::string& address, const std::string& reason)> on_refused;
  };

  AgentLinks(boost::asio::io_context& io, std::string secret, SilenceWatch::Duration silence,
             Events events);
  /// Listens on the first free port of the range (0-0: any). `loopback`: for this machine only.
  /// Throws std::runtime_error naming the port and the option.
  void listen(std::pair<std::uint16_t, std::uint16_t> ports, bool loopback);
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  void send(const std::string& node, const protocol::Message& message);
  void send_to_all(const protocol::Message& message);
  /// Ends the connection to a node, and reports it as lost.
  void drop(const std::string& node, const std::string& reason) { lose(node, reason); }
  bool connected(const std::string& node) const { return links_.contains(node); }
  void close();

 private:
  using ChannelPtr = std::shared_ptr<protocol::Channel>;
  void accept();
  void greet(const ChannelPtr& channel);
  void hello(const ChannelPtr& channel, const Challenge& challenge,
             const protocol::Message& message);
  void refuse(const ChannelPtr& channel, const std::string& reason, const std::string& proof = "");
  void lose(const std::string& node, const std::string& reason);
  void beat();

  boost::asio::io_context& io_;
  std::string secret_;
  Events events_;
  SilenceWatch silence_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer beat_timer_;
  std::map<std::string, ChannelPtr> links_;                          // by node
  std::map<ChannelPtr, SilenceWatch::Clock::time_point> strangers_;  // since when
};

}  // namespace bellows::elastic
