// SPDX-License-Identifier: Apache-2.0
// Where Prometheus fetches metrics: HTTP, GET /metrics and nothing else, one request for each
// connection. Nothing that a client does can block or end this process, or make it grow.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace bellows::protocol {

/// An address and a port to listen at.
struct MetricsAddress {
  std::string address = "127.0.0.1";  // a number, IPv4 or IPv6
  std::uint16_t port = 0;             // 0: any free one

  /// "ADDRESS:PORT", "[IPV6]:PORT", ":PORT" or "PORT"; loopback where no address is given. Throws
  /// std::invalid_argument saying what it must be.
  static MetricsAddress parse(std::string_view text);
};

struct MetricsLimits {
  std::chrono::milliseconds patience{5'000};  // for a request, and for the answer to be taken
  std::size_t clients = 16;                   // at a time; others are closed at once
  std::size_t request_bytes = 8'192;          // a larger one is refused
  std::chrono::milliseconds fresh{500};       // so old the text may be
};

class MetricsServer {
 public:
  /// `text` gives the metrics, on the thread of the io_context. Throws std::runtime_error naming
  /// the address when it cannot listen there.
  MetricsServer(boost::asio::io_context& io, const MetricsAddress& where,
                std::function<std::string()> text, MetricsLimits limits = {});
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;
  /// Closes, and nothing keeps the io_context running.
  ~MetricsServer();

  std::uint16_t port() const;
  /// http://ADDRESS:PORT/metrics
  std::string url() const;

 private:
  class Desk;
  std::shared_ptr<Desk> desk_;
};

}  // namespace bellows::protocol
