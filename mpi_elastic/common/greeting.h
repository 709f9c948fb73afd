// SPDX-License-Identifier: Apache-2.0
// How an agent and the coordinator meet: version and proof of the common secret, in both
// directions, before anything else is said.
//
//   coordinator  challenge {version, nonce}
//   agent        hello     {version, nonce, proof, node, returning}
//   coordinator  welcome   {proof, node_id}       or  refused {reason}
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "mpi_elastic/common/agent_settings.h"
#include "protocol/channel.h"

namespace bellows::elastic {

/// The coordinator answered, and wants no dealings with this agent.
class Refused : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Welcome {
  std::shared_ptr<protocol::Channel> channel;
  std::uint32_t node_id = 0;
};

/// Tries the coordinator's addresses in turn until one leads to it, for at most
/// settings.connect_seconds. Throws Refused, or std::runtime_error that lists what was tried.
Welcome greet_coordinator(boost::asio::io_context& io, const AgentSettings& settings);

/// What became of one try: a channel, or one of the reasons.
struct GreetingResult {
  std::shared_ptr<protocol::Channel> channel;
  std::uint32_t node_id = 0;
  std::string refused;  // the coordinator, or whoever listens there, answered so
  bool proved = false;  // the refusal is that of this job's coordinator
  std::string failed;   // there was no proper answer
};

/// One try at one address, without blocking: `done` is called once, at the limit at the latest.
/// `returning`: the node's id, by an agent that has lost its coordinator.
void greet_once(boost::asio::io_context& io, const AgentSettings& settings,
                const std::string& address, std::optional<std::uint32_t> returning,
                std::chrono::steady_clock::time_point limit,
                std::function<void(GreetingResult)> done);

/// The coordinator's side of one greeting.
class Challenge {
 public:
  Challenge();
  protocol::Message message() const;
  /// Checks a hello: returns the reason for refusing it, "" if it is good. `welcome` is filled
  /// with the proof that the agent waits for.
  std::string check(const protocol::Message& hello, const std::string& secret,
                    protocol::Message& welcome) const;

 private:
  std::string nonce_;
};

}  // namespace bellows::elastic
