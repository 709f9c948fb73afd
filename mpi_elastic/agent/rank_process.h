// SPDX-License-Identifier: Apache-2.0
// A rank that runs on this node: its output, its input, its end.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "mpi_elastic/common/process.h"

namespace bellows::elastic {

class RankProcess : public std::enable_shared_from_this<RankProcess> {
 public:
  enum class Stream { out, err };
  struct Events {
    std::function<void(Stream, std::string bytes)> on_output;
    /// All output written before the end has been reported by then. `status` as from waitpid.
    std::function<void(int status)> on_exit;
    /// So many bytes of input were taken by the rank (or dropped, since it reads no more).
    std::function<void(std::size_t bytes)> on_input_taken;
  };

  RankProcess(boost::asio::io_context& io, Process process, Events events);
  void start();

  pid_t pid() const { return process_.pid; }
  bool running() const { return running_; }
  /// True when it has ended, be it that this was not heard yet.
  bool has_ended() const;
  /// To the rank's whole process group; nothing happens when it has ended.
  void signal(int number);
  void write_input(std::string bytes);
  /// The rank sees the end of its input once everything is written.
  void close_input();
  /// Stops and resumes reading the rank's output (it will block in write when its pipes are full).
  void hold_output(bool hold);

 private:
  struct Pipe {
    Stream stream;
    boost::asio::posix::stream_descriptor descriptor;
    std::array<char, 65536> buffer;
    bool reading = false;
  };
  void read(Pipe& pipe);
  static std::string rest_of(Pipe& pipe);
  void write_next();
  void wait_for_exit();
  void exited();
  void finish();

  Process process_;
  Events events_;
  bool running_ = true;
  bool ended_ = false;  // not running any more, but for what is still to be read
  bool held_ = false;
  std::array<Pipe, 2> pipes_;
  boost::asio::posix::stream_descriptor exit_;
  boost::asio::posix::stream_descriptor input_;
  std::deque<std::string> input_queue_;
  bool input_ends_ = false;
};

}  // namespace bellows::elastic
