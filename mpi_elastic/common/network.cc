// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/common/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace bellows::elastic {
namespace {

using Interfaces = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

Interfaces interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) list = nullptr;
  return {list, &freeifaddrs};
}

bool is_up_with_ipv4(const ifaddrs& i) {
  return i.ifa_addr != nullptr && i.ifa_addr->sa_family == AF_INET && (i.ifa_flags & IFF_UP) != 0;
}

std::uint32_t ipv4(const sockaddr* address) {
  return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr;
}

std::string ipv4_text(std::uint32_t address) {
  std::array<char, INET_ADDRSTRLEN> text;
  in_addr a{address};
  return inet_ntop(AF_INET, &a, text.data(), text.size()) != nullptr ? text.data() : "";
}

}  // namespace

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  const Interfaces list = interfaces();
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    if (is_up_with_ipv4(*i) && (i->ifa_flags & IFF_LOOPBACK) == 0) {
      addresses.push_back(ipv4_text(ipv4(i->ifa_addr)));
    }
  }
  return addresses;
}

std::string network_of(const std::string& address) {
  const Interfaces list = interfaces();
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    if (is_up_with_ipv4(*i) && i->ifa_netmask != nullptr &&
        ipv4_text(ipv4(i->ifa_addr)) == address) {
      const std::uint32_t mask = ipv4(i->ifa_netmask);
      return ipv4_text(ipv4(i->ifa_addr) & mask) + "/" + std::to_string(std::popcount(mask));
    }
  }
  return "";
}

std::pair<std::string, std::string> split_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    throw std::invalid_argument("'" + text + "' is not HOST:PORT");
  }
  return {text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace bellows::elastic
