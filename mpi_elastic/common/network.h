// SPDX-License-Identifier: Apache-2.0
// Addresses: where this machine can be reached, and which network an address belongs to.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bellows::elastic {

/// The IPv4 addresses of this machine's interfaces that are up, without loopback.
std::vector<std::string> own_addresses();

/// The network of the interface that has this address, as "10.88.0.0/16"; "" when no interface has
/// it. Networks, not interface names, are what is alike on all nodes.
std::string network_of(const std::string& address);

/// "host:port" apart. Throws std::invalid_argument naming the text.
std::pair<std::string, std::string> split_address(const std::string& text);

}  // namespace bellows::elastic
