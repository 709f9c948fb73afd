// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/common/greeting.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "mpi_elastic/common/network.h"
#include "mpi_elastic/common/silence.h"
#include "protocol/secret.h"

namespace bellows::elastic {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using protocol::Channel;
using protocol::Message;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kOneTry = std::chrono::seconds(5);          // for one address
constexpr auto kBetween = std::chrono::milliseconds(200);  // rounds over all addresses

// Runs the io_context until `ready`, or the limit.
bool run_until(asio::io_context& io, Clock::time_point limit, const std::function<bool()>& ready) {
  io.restart();
  while (!ready()) {
    if (io.run_one_until(limit) == 0) {
      if (Clock::now() >= limit) return false;
      io.restart();
    }
  }
  return true;
}

// One try at one address.
class Try : public std::enable_shared_from_this<Try> {
 public:
  Try(asio::io_context& io, const AgentSettings& settings, std::optional<std::uint32_t> returning,
      std::function<void(GreetingResult)> done)
      : settings_(settings),
        returning_(returning),
        done_(std::move(done)),
        resolver_(io),
        socket_(io),
        limit_(io) {}

  void start(const std::string& address, Clock::time_point limit) {
    limit_.expires_at(limit);
    limit_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled) self->fail(self->channel_ ? "no answer to the greeting" : "no answer");
    });
    try {
      const auto [host, port] = split_address(address);
      asio::async_connect(
          socket_, resolver_.resolve(host, port),
          [self = shared_from_this()](const error_code& failed, const tcp::endpoint&) {
            if (failed) {
              self->fail(failed.message());
            } else if (self->done_) {
              self->greet();
            }
          });
    } catch (const std::exception& failed) {
      fail(failed.what());
    }
  }

 private:
  void greet() {
    channel_ = Channel::over(std::move(socket_));
    channel_->start([self = shared_from_this()](const Message& message) { self->receive(message); },
                    [self = shared_from_this()](const std::string& reason) { self->fail(reason); });
  }

  void receive(const Message& message) {
    if (message.type() == "challenge") {
      challenge_ = message.text("nonce");
      Message hello("hello");
      hello.head["version"] = protocol::kVersion;
      hello.head["nonce"] = nonce_;
      hello.head["proof"] = protocol::proof(settings_.secret, "agent", challenge_, nonce_);
      hello.head["node"] = settings_.node;
      if (returning_) hello.head["returning"] = *returning_;
      channel_->send(hello);
    } else if (message.type() == "welcome") {
      if (!is_proved(message)) {
        fail("it does not know this job's secret");
        return;
      }
      GreetingResult result;
      result.node_id = static_cast<std::uint32_t>(message.number("node_id"));
      result.channel = channel_;
      finish(std::move(result));
    } else if (message.type() == "refused") {
      GreetingResult result;
      result.refused = message.text("reason");
      result.proved = message.head.contains("proof") && is_proved(message);
      finish(std::move(result));
    }
  }

  bool is_proved(const Message& message) const {
    return protocol::same_proof(
        message.text("proof"),
        protocol::proof(settings_.secret, "coordinator", nonce_, challenge_));
  }

  void fail(const std::string& reason) {
    GreetingResult result;
    result.failed = reason;
    finish(std::move(result));
  }

  void finish(GreetingResult result) {
    if (!done_) return;
    const auto done = std::exchange(done_, nullptr);
    limit_.cancel();
    error_code ignored;
    socket_.close(ignored);
    const std::shared_ptr<Channel> channel = std::move(channel_);
    if (channel && !result.channel) channel->close();
    done(std::move(result));
  }

  const AgentSettings settings_;
  const std::optional<std::uint32_t> returning_;
  std::function<void(GreetingResult)> done_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer limit_;
  std::shared_ptr<Channel> channel_;
  std::string challenge_, nonce_ = protocol::random_hex();
};

}  // namespace

void greet_once(asio::io_context& io, const AgentSettings& settings, const std::string& address,
                std::optional<std::uint32_t> returning, std::chrono::steady_clock::time_point limit,
                std::function<void(GreetingResult)> done) {
  std::make_shared<Try>(io, settings, returning, std::move(done))->start(address, limit);
}

Welcome greet_coordinator(asio::io_context& io, const AgentSettings& settings) {
  const auto limit = Clock::now() + to_duration(settings.connect_seconds);
  std::string tried;
  while (true) {
    tried.clear();
    for (const std::string& address : settings.addresses) {
      std::optional<GreetingResult> result;
      greet_once(io, settings, address, std::nullopt, std::min(limit, Clock::now() + kOneTry),
                 [&](GreetingResult got) { result = std::move(got); });
      // (A try has its own limit.)
      run_until(io, Clock::time_point::max(), [&] { return result.has_value(); });
      if (result->channel) return {result->channel, result->node_id};
      if (!result->refused.empty()) throw Refused(result->refused);
      tried += (tried.empty() ? "" : "; ") + address + ": " + result->failed;
    }
    if (Clock::now() + kBetween >= limit) break;
    asio::steady_timer pause(io, kBetween);
    bool over = false;
    pause.async_wait([&](const error_code&) { over = true; });
    run_until(io, limit, [&] { return over; });
  }
  throw std::runtime_error(
      "cannot reach bellows-run (" + tried +
      "); is a firewall between the nodes? (bellows-run --port fixes the port)");
}

Challenge::Challenge() : nonce_(protocol::random_hex()) {}

Message Challenge::message() const {
  Message challenge("challenge");
  challenge.head["version"] = protocol::kVersion;
  challenge.head["nonce"] = nonce_;
  return challenge;
}

std::string Challenge::check(const Message& hello, const std::string& secret,
                             Message& welcome) const {
  if (hello.type() != "hello") return "the first message is not a hello";
  if (hello.number("version") != protocol::kVersion) {
    return "it speaks version " + std::to_string(hello.number("version")) +
           " of the protocol, bellows-run speaks version " + std::to_string(protocol::kVersion) +
           ": install the same Bellows on all nodes";
  }
  const std::string nonce = hello.text("nonce");
  if (!protocol::same_proof(hello.text("proof"), protocol::proof(secret, "agent", nonce_, nonce))) {
    return "wrong secret";
  }
  welcome = Message("welcome");
  welcome.head["proof"] = protocol::proof(secret, "coordinator", nonce, nonce_);
  return "";
}

}  // namespace bellows::elastic
