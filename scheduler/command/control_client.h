// SPDX-License-Identifier: Apache-2.0
// Asks a running job: the other end of bellows-run's control socket.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>

#include "protocol/message.h"

namespace bellows::scheduler {

/// No launcher there, or none that can be trusted or understood. `what()` names the socket.
class NoAnswer : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The request was sent, and the answer has not come in time: whether it was, or will be, granted
/// is not known.
class Overdue : public NoAnswer {
  using NoAnswer::NoAnswer;
};

/// One connection for each request. Needs no threads and no event loop; may be used by any thread.
class ControlClient {
 public:
  using Milliseconds = std::chrono::milliseconds;

  explicit ControlClient(std::string socket) : socket_(std::move(socket)) {}

  /// Sends a request and waits for its answer, at most for `limit`. Types of requests and answers,
  /// and their members: docs/man/bellows.1, PROTOCOL. Throws NoAnswer, Overdue; std::runtime_error
  /// when the path cannot be that of a socket.
  protocol::Message ask(protocol::Message request, Milliseconds limit) const;

 private:
  std::string socket_;
};

}  // namespace bellows::scheduler
