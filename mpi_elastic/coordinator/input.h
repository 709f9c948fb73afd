// SPDX-License-Identifier: Apache-2.0
// bellows-run's own stdin on its way to rank 0. A thread reads, since files and terminals cannot be
// waited for like sockets.
#pragma once

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "mpi_elastic/common/process.h"

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
  // Outlives this object where the thread is stuck in a read: somebody else with the same stdin was
  // quicker to take what poll() had announced.
  struct Shared {
    boost::asio::io_context& io;
    std::function<void(std::string)> on_input;
    Fd wake;
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t underway = 0;
    bool ending = false;
  };
  static void run(Shared& shared);

  std::shared_ptr<Shared> shared_;
};

}  // namespace bellows::elastic
