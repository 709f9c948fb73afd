// SPDX-License-Identifier: Apache-2.0
// The ranks' output on its way to bellows-run's own stdout and stderr. A thread writes, so that a
// reader that stalls holds up the ranks and never the launcher.
#pragma once

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace bellows::elastic {

/// Puts whole lines of each rank's stream behind a prefix; with no prefixes, passes bytes on as
/// they come. Not thread-safe.
class LineTagger {
 public:
  explicit LineTagger(bool tag) : tag_(tag) {}
  /// What can be written now. `stream` tells the rank's streams apart.
  std::string add(std::uint64_t rank, int stream, const std::string& bytes);
  /// The unfinished last lines of a rank that has ended, with a line feed.
  std::string finish(std::uint64_t rank, int stream);

 private:
  bool tag_;
  std::map<std::pair<std::uint64_t, int>, std::string> partial_;
};

class OutputWriter {
 public:
  /// `written` is called on the io_context's thread when the bytes of one `write` have left.
  explicit OutputWriter(boost::asio::io_context& io) : io_(io), thread_([this] { run(); }) {}
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;
  ~OutputWriter();  // flushes

  /// Waits until everything is written or its reader is gone: for as long as the reader takes, as
  /// any program that writes to a pipe.
  void flush();

  /// To stdout (1) or stderr (2). Once nobody can read a stream any more, what goes there is
  /// dropped; what a full disk refuses is lost, with one warning.
  void write(int fd, std::string bytes, std::function<void()> written);

 private:
  struct Item {
    int fd;
    std::string bytes;
    std::function<void()> written;
  };
  void run();

  boost::asio::io_context& io_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool ending_ = false;
  bool idle_ = true;
  std::thread thread_;
};

}  // namespace bellows::elastic
