// SPDX-License-Identifier: Apache-2.0
// The secret that the processes of one job share, and the proof that a peer has it.
//
// The secret itself never crosses the network: each side sends a fresh nonce and proves that it
// knows the secret by HMAC-SHA256 over the role it plays and both nonces.
#pragma once

#include <string>
#include <string_view>

namespace bellows::protocol {

/// A fresh secret or nonce: 32 random bytes in hexadecimal. Throws std::runtime_error when the
/// system gives no random bytes.
std::string random_hex();

/// HMAC-SHA256 in hexadecimal, keyed with `secret`, over role, challenge and answer.
/// `role` ("agent", "coordinator") keeps one side's proof from being played back as the other's.
std::string proof(std::string_view secret, std::string_view role, std::string_view challenge,
                  std::string_view answer);

/// Comparison whose time does not depend on where the strings differ.
bool same_proof(std::string_view a, std::string_view b);

}  // namespace bellows::protocol
