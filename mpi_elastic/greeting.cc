// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/greeting.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>

#include "mpi_elastic/network.h"
#include "protocol/secret.h"

namespace bellows::elastic {
namespace asio = boost::asio;
using asio::ip::tcp;
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

tcp::socket connect(asio::io_context& io, const std::string& address, Clock::time_point limit) {
  const auto [host, port] = split_address(address);
  tcp::resolver resolver(io);
  const auto endpoints = resolver.resolve(host, port);
  tcp::socket socket(io);
  std::optional<boost::system::error_code> result;
  asio::async_connect(
      socket, endpoints,
      [&](const boost::system::error_code& failed, const tcp::endpoint&) { result = failed; });
  if (!run_until(io, limit, [&] { return result.has_value(); })) {
    socket.close();
    run_until(io, Clock::now() + kOneTry, [&] { return result.has_value(); });
    throw std::runtime_error("no answer");
  }
  if (*result) throw std::runtime_error(result->message());
  return socket;
}

// One greeting over a connected socket.
Welcome greet(asio::io_context& io, const AgentSettings& settings, tcp::socket socket,
              Clock::time_point limit) {
  struct State {
    std::string challenge, nonce = protocol::random_hex();
    std::optional<std::uint32_t> node_id;
    std::string refused, closed;
  };
  const auto state = std::make_shared<State>();
  const auto channel = Channel::over(std::move(socket));
  channel->start(
      [state, &settings, raw = channel.get()](const Message& message) {
        if (message.type() == "challenge") {
          state->challenge = message.text("nonce");
          Message hello("hello");
          hello.head["version"] = protocol::kVersion;
          hello.head["nonce"] = state->nonce;
          hello.head["proof"] =
              protocol::proof(settings.secret, "agent", state->challenge, state->nonce);
          hello.head["node"] = settings.node;
          raw->send(hello);
        } else if (message.type() == "welcome") {
          const std::string expected =
              protocol::proof(settings.secret, "coordinator", state->nonce, state->challenge);
          if (!protocol::same_proof(message.text("proof"), expected)) {
            state->closed = "it does not know this job's secret";
          } else {
            state->node_id = static_cast<std::uint32_t>(message.number("node_id"));
          }
        } else if (message.type() == "refused") {
          state->refused = message.text("reason");
        }
      },
      [state](const std::string& reason) { state->closed = reason; });
  const bool answered = run_until(io, limit, [&] {
    return state->node_id || !state->refused.empty() || !state->closed.empty();
  });
  if (state->node_id) return {channel, *state->node_id};
  channel->close();
  if (!state->refused.empty()) throw Refused(state->refused);
  throw std::runtime_error(answered ? state->closed : "no answer to the greeting");
}

}  // namespace

Welcome greet_coordinator(asio::io_context& io, const AgentSettings& settings) {
  const auto limit = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(settings.connect_seconds));
  std::string tried;
  while (true) {
    tried.clear();
    for (const std::string& address : settings.addresses) {
      const auto try_limit = std::min(limit, Clock::now() + kOneTry);
      try {
        return greet(io, settings, connect(io, address, try_limit), try_limit);
      } catch (const Refused&) {
        throw;
      } catch (const std::exception& failed) {
        if (!tried.empty()) tried += "; ";
        tried += address + ": " + failed.what();
      }
    }
    if (Clock::now() + kBetween >= limit) break;
    asio::steady_timer pause(io, kBetween);
    bool over = false;
    pause.async_wait([&](const boost::system::error_code&) { over = true; });
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
