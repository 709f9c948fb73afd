// SPDX-License-Identifier: Apache-2.0
#include "scheduler/broker/daemon_link.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/json.hpp>
#include <utility>

namespace bellows::scheduler {
namespace asio = boost::asio;
namespace json = boost::json;
using asio::ip::tcp;
using protocol::Message;

namespace {

constexpr std::chrono::milliseconds kFirstWait(500), kLongestWait(30'000);
constexpr std::chrono::seconds kConnectLimit(10);
constexpr std::chrono::milliseconds kGather(100);  // changes come in groups: one report for them
constexpr std::size_t kMostBytes = std::size_t{4} << 20;

}  // namespace

DaemonLink::DaemonLink(asio::io_context& io, std::string host, std::uint16_t port,
                       std::set<std::uint32_t> trusted, protocol::Sealer& sealer, Handlers handlers,
                       std::chrono::milliseconds interval)
    : io_(io),
      host_(std::move(host)),
      port_(port),
      trusted_(std::move(trusted)),
      sealer_(sealer),
      handlers_(std::move(handlers)),
      interval_(interval),
      resolver_(io),
      socket_(io),
      retry_(io),
      report_timer_(io),
      limit_(io),
      wait_(kFirstWait) {
  connect();
}

DaemonLink::~DaemonLink() {
  if (channel_) channel_->close();
}

void DaemonLink::connect() {
  limit_.expires_after(kConnectLimit);
  const std::weak_ptr<int> alive = alive_;
  limit_.async_wait([this, alive](const boost::system::error_code& failed) {
    if (failed || alive.expired()) return;
    resolver_.cancel();
    boost::system::error_code ignored;
    socket_.close(ignored);
  });
  resolver_.async_resolve(
      host_, std::to_string(port_),
      [this, alive](const boost::system::error_code& failed,
                    const tcp::resolver::results_type& at) {
        if (alive.expired()) return;
        if (failed) {
          try_again(failed.message());
          return;
        }
        asio::async_connect(
            socket_, at,
            [this, alive](const boost::system::error_code& refused, const tcp::endpoint&) {
              if (alive.expired()) return;
              limit_.cancel();
              if (refused) {
                try_again(refused.message());
                return;
              }
              channel_ = protocol::Channel::over(std::move(socket_));
              socket_ = tcp::socket(io_);
              channel_->limit(kMostBytes);
              channel_->start([this](const Message& sealed) { receive(sealed); },
                              [this](const std::string& why) { try_again(why); });
              done_ = 0;
              report();
            });
      });
}

void DaemonLink::try_again(const std::string& why) {
  limit_.cancel();
  report_timer_.cancel();
  channel_.reset();
  handlers_.guided(false);
  if (!std::exchange(told_, true)) {
    spdlog::warn("bellowsd at {}:{}: {}; the job goes on without it", host_, port_, why);
  }
  retry_.expires_after(wait_);
  wait_ = std::min(wait_ * 2, kLongestWait);
  retry_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) connect();
  });
}

void DaemonLink::changed() {
  if (!channel_) return;
  if (report_timer_.expiry() - asio::steady_timer::clock_type::now() <= kGather) return;
  report_timer_.expires_after(kGather);
  report_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) report();
  });
}

void DaemonLink::report() {
  if (!channel_) return;
  if (const std::optional<ElasticJob> job = handlers_.report()) {
    Message report = report_of(*job);
    report.head["done"] = done_;
    send(report);
    if (!channel_) return;
  }
  report_timer_.expires_after(interval_);
  report_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) this->report();
  });
}

void DaemonLink::receive(const Message& sealed) {
  try {
    const protocol::Opened opened = sealer_.open(sealed);
    if (!trusted_.contains(opened.user)) {
      throw std::runtime_error("it runs as user " + std::to_string(opened.user) +
                               ", who is not named by 'user' in its configuration");
    }
    if (std::exchange(told_, false)) spdlog::warn("bellowsd at {}:{} is there again", host_, port_);
    wait_ = kFirstWait;
    const Message& message = opened.message;
    if (message.type() == "welcome") {
      handlers_.guided(true);
    } else if (message.type() == "order") {
      Decision order;
      order.grow = static_cast<int>(std::clamp<std::int64_t>(message.number("grow"), 0, 100'000));
      order.companion =
          static_cast<std::size_t>(std::clamp<std::int64_t>(message.number("companion"), 0, 64));
      order.give_back = json::value_to<std::vector<std::string>>(message.head.at("give_back"));
      order.why = message.text("why");
      handlers_.order(order);
      done_ = message.number("number");
      changed();
    } else if (message.type() == "request") {
      Message request;
      request.head = message.object("request");
      const std::int64_t number = message.number("number");
      const Reply reply = [this, number, alive = std::weak_ptr(alive_)](Message answer) {
        if (alive.expired()) return;
        Message back("answer");
        back.head["number"] = number;
        back.head["answer"] = std::move(answer.head);
        send(back);
      };
      try {
        handlers_.request(request, reply);
      } catch (const std::exception& refused) {
        Message no("refused");
        no.head["reason"] = refused.what();
        reply(no);
      }
    }
  } catch (const std::exception& wrong) {
    if (channel_) channel_->close();
    try_again(wrong.what());
  }
}

void DaemonLink::send(const Message& message) {
  if (!channel_) return;
  try {
    channel_->send(sealer_.seal(message));
  } catch (const std::exception& failed) {
    channel_->close();
    try_again(failed.what());
  }
}

}  // namespace bellows::scheduler
