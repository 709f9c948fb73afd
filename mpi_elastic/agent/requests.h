// SPDX-License-Identifier: Apache-2.0
// Requests of an agent to the coordinator that wait for their answer.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "mpi_elastic/agent/pmix_host.h"
#include "mpi_elastic/common/rendezvous.h"
#include "protocol/channel.h"
#include "protocol/message.h"

namespace bellows::elastic {

/// Sends requests, remembers what to call, and calls it when the answer comes. On the thread of the
/// channel.
class Requests {
 public:
  using Answered = std::function<void(const protocol::Message& answer)>;

  explicit Requests(std::shared_ptr<protocol::Channel> channel) : channel_(std::move(channel)) {}

  /// A collective (see rendezvous.h). The answer carries "ok", "context" and the data.
  void collective(CollectiveKind kind, const std::string& name, const std::vector<Proc>& procs,
                  std::string data, Answered answered);
  /// Any other request; "request" is added to the message.
  void send(protocol::Message message, Answered answered);
  /// The highest context id of a group that has come in an answer.
  std::uint64_t context() const { return context_; }
  /// Goes on over another channel. What was asked over the one before will not be answered any
  /// more: it fails (what was published counts as done). Returns how many requests that were.
  std::size_t move_to(std::shared_ptr<protocol::Channel> channel);
  /// Takes an answer: false when the message is none, or nobody waits for it any more.
  bool take(const protocol::Message& message);

 private:
  std::shared_ptr<protocol::Channel> channel_;
  std::map<std::int64_t, Answered> waiting_;
  std::map<std::string, Answered> collectives_;
  std::int64_t next_ = 1;
  std::uint64_t context_ = 0;
};

}  // namespace bellows::elastic
