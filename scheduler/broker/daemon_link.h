// SPDX-License-Identifier: Apache-2.0
// A broker's connection to bellowsd: reports its job, hears orders and requests. bellowsd may be
// away, at any time and for as long as it likes: the link tries again.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "protocol/channel.h"
#include "protocol/credential.h"
#include "scheduler/policy/elastic_job.h"

namespace bellows::scheduler {

class DaemonLink {
 public:
  using Reply = std::function<void(protocol::Message answer)>;
  struct Handlers {
    /// All there is to know of the job, now; nothing before anything is known.
    std::function<std::optional<ElasticJob>()> report;
    /// bellowsd is there and takes the job for one of its own, or is not any more.
    std::function<void(bool guided)> guided;
    /// An order. Once it is taken up it shows in the reports (coming, going).
    std::function<void(const Decision& order)> order;
    /// A user's request, as it would come to the control socket (`resize`); to be answered with
    /// `done` or `refused`, now or later.
    std::function<void(const protocol::Message& request, Reply reply)> request;
  };

  /// `host`, `port`: where bellowsd is. `trusted`: uids that it may run as; messages of others end
  /// the connection. Reports are sent every `interval`.
  DaemonLink(boost::asio::io_context& io, std::string host, std::uint16_t port,
             std::set<std::uint32_t> trusted, protocol::Sealer& sealer, Handlers handlers,
             std::chrono::milliseconds interval = std::chrono::seconds(5));
  ~DaemonLink();
  DaemonLink(const DaemonLink&) = delete;
  DaemonLink& operator=(const DaemonLink&) = delete;

  /// Something worth a report has happened.
  void changed();
  bool connected() const { return channel_ != nullptr; }

 private:
  void connect();
  void try_again(const std::string& why);
  void report();
  void receive(const protocol::Message& sealed);
  void send(const protocol::Message& message);

  boost::asio::io_context& io_;
  const std::string host_;
  const std::uint16_t port_;
  const std::set<std::uint32_t> trusted_;
  protocol::Sealer& sealer_;
  const Handlers handlers_;
  const std::chrono::milliseconds interval_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer retry_, report_timer_, limit_;
  std::chrono::milliseconds wait_;
  std::shared_ptr<protocol::Channel> channel_;
  std::int64_t done_ = 0;                                  // number of the newest order
  bool told_ = false;                                      // that it is away
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // for replies that outlive this
};

}  // namespace bellows::scheduler
