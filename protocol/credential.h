// SPDX-License-Identifier: Apache-2.0
// Messages between processes of different users: sealed by MUNGE, which says who sent them.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "protocol/message.h"

namespace bellows::protocol {

/// A credential cannot be made or is not valid. `what()` says why and what to look at.
class CredentialError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A message, and who sealed it.
struct Opened {
  Message message;
  std::uint32_t user = 0;  // uid
};

/// A seam: MUNGE needs its daemon, tests do not.
class Sealer {
 public:
  virtual ~Sealer() = default;
  /// A message of type "sealed" that holds `message`; only `reader` (a uid; by default anybody) can
  /// open it.
  virtual Message seal(const Message& message) = 0;
  virtual Message seal_for(const Message& message, std::uint32_t reader) = 0;
  /// Each credential can be opened once on each machine (MUNGE refuses replays), within MUNGE's
  /// time limit (5 minutes). Throws CredentialError, ProtocolError.
  virtual Opened open(const Message& sealed) = 0;
};

/// By the MUNGE daemon of this machine, through its default socket. Calls take about a
/// millisecond.
std::unique_ptr<Sealer> munge_sealer();

}  // namespace bellows::protocol
