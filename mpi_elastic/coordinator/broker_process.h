// SPDX-License-Identifier: Apache-2.0
// bellows-broker as bellows-run sees it: a child that changes the allocation of the job. The job
// goes on without it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "mpi_elastic/common/process.h"

namespace bellows::elastic {

/// Starts the broker, and again when it ends by itself, some times. It hears through its standard
/// input how its parent ends: by the word "end" in order, without it when it was killed.
class BrokerProcess {
 public:
  struct Command {
    std::string program;
    std::string job;           // as in `bellows status`
    std::string slurm_job;     // the allocation
    double grace_seconds = 0;  // for which it waits for another bellows-run
    bool standalone = false;   // it asks no bellowsd
  };

  /// A program that is missing is a warning.
  BrokerProcess(boost::asio::io_context& io, Command command);
  BrokerProcess(const BrokerProcess&) = delete;
  BrokerProcess& operator=(const BrokerProcess&) = delete;
  ~BrokerProcess() { end(); }

  /// The job has ended: lets the broker give back what it holds. Waits for it, for some seconds.
  void end();

 private:
  void start();
  void await_end();

  boost::asio::io_context& io_;
  Command command_;
  boost::asio::steady_timer restart_;
  std::optional<boost::asio::posix::stream_descriptor> exit_;
  pid_t pid_ = -1;
  protocol::Fd words_;  // our end of its standard input
  int starts_ = 0;
  bool ended_ = false;
};

}  // namespace bellows::elastic
