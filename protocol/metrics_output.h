// SPDX-License-Identifier: Apache-2.0
// Where a program's metrics go: to Prometheus, which asks for them, and to a file that is replaced
// every few seconds.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "protocol/metrics_server.h"

namespace bellows::protocol {

class MetricsOutput {
 public:
  /// `text` gives the metrics, on the thread of the io_context. `warn` gets a sentence when the
  /// file cannot be written, once until it can be again. Both must outlive this.
  MetricsOutput(boost::asio::io_context& io, std::function<std::string()> text,
                std::function<void(const std::string&)> warn);

  /// Answers there from now on; returns the address for people. `option` begins the message of the
  /// std::runtime_error that is thrown when it cannot listen there.
  std::string listen(const MetricsAddress& where, const std::string& option);
  /// Writes the file, now and every 5 seconds; "": none any more. Throws std::runtime_error, as
  /// above, when the first time fails; it goes on all the same.
  void keep(const std::string& file, const std::string& option);
  /// Writes the file now.
  void write();
  /// Ends both, and leaves the file with what holds now.
  void close();

 private:
  void await();

  boost::asio::io_context& io_;
  const std::function<std::string()> text_;
  const std::function<void(const std::string&)> warn_;
  std::unique_ptr<MetricsServer> server_;
  boost::asio::steady_timer timer_;
  std::string file_, option_;
  bool failed_ = false;  // and was said so
};

}  // namespace bellows::protocol
