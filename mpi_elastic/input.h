// SPDX-License-Identifier: Apache-2.0
// bellows-run's own stdin on its way to rank 0. A thread reads, since files and terminals cannot be
// waited for like sockets.
#pragma once

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "mpi_elastic/process.h"

namespace bellows::elastic {

class InputReader {
 public:
  /// `on_input` gets bytes, or "" once at the end, on the io_context's thread.
  InputReader(boost::asio::io_context& io, std::function<void(std::string)> on_input);
  InputReader(const InputReader&) = delete;
  InputReader& operator=(const InputReader&) = delete;
  ~InputReader();
  /// The rank has taken so many bytes: as many more may be read.
  void taken(std::size_t bytes);

 private:
  void run();

  boost::asio::io_context& io_;
  std::function<void(std::string)> on_input_;
  Fd wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t underway_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace bellows::elastic
