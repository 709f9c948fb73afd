// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/daemon_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>

#include "protocol/channel.h"
#include "scheduler/command/control_client.h"

namespace bellows::scheduler {
using boost::asio::ip::tcp;
using protocol::Message;

Message ask_daemon(const DaemonSettings& settings, protocol::Sealer& sealer, const Message& request,
                   std::chrono::milliseconds limit) {
  const std::string where = "bellowsd at " + settings.host + ":" + std::to_string(settings.port);
  boost::asio::io_context io;
  tcp::resolver resolver(io);
  tcp::socket socket(io);
  std::shared_ptr<protocol::Channel> channel;
  std::optional<Message> sealed;
  std::string failure;
  const auto give_up = [&](const std::string& why) {
    failure = why;
    io.stop();
  };
  const auto talk = [&](const boost::system::error_code& failed, const tcp::endpoint&) {
    if (failed) {
      give_up(failed.message());
      return;
    }
    channel = protocol::Channel::over(std::move(socket));
    channel->start(
        [&](const Message& answer) {
          sealed = answer;
          io.stop();
        },
        give_up);
    channel->send(sealer.seal(request));
  };
  resolver.async_resolve(
      settings.host, std::to_string(settings.port),
      [&](const boost::system::error_code& failed, const tcp::resolver::results_type& found) {
        if (failed) {
          give_up(failed.message());
        } else {
          boost::asio::async_connect(socket, found, talk);
        }
      });
  io.run_for(limit);
  if (!failure.empty()) throw NoAnswer(where + ": " + failure);
  if (!sealed) {
    throw Overdue(where + " has not answered within " +
                  std::to_string((limit.count() + 999) / 1000) + " s");
  }
  const protocol::Opened opened = sealer.open(*sealed);
  if (!settings.users.contains(opened.user)) {
    throw NoAnswer(where + " runs as user " + std::to_string(opened.user) +
                   ", whom 'user' in its configuration does not name");
  }
  return opened.message;
}

}  // namespace bellows::scheduler
