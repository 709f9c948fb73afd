// SPDX-License-Identifier: Apache-2.0
// The broker of one elastic job: takes requests for nodes, one after the other, and looks after the
// allocation in between. Calls to Slurm block, so all of that happens on a thread of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "protocol/message.h"
#include "scheduler/broker/care.h"
#include "scheduler/broker/desk.h"
#include "scheduler/broker/resize.h"

namespace bellows::scheduler {

/// Real time, whose waits end when the process is to.
class BrokerPace final : public Pace {
 public:
  Time now() const override { return std::chrono::system_clock::now(); }
  bool wait(Seconds time) override;
  /// Ends the wait in hand and all later ones.
  void stop();
  bool stopped() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable stopped_now_;
  bool stopped_ = false;
};

class Broker {
 public:
  using Reply = std::function<void(protocol::Message answer)>;

  /// All of them outlive it.
  Broker(Cluster& cluster, RunClient& run, BrokerPace& pace, const BrokerSettings& settings,
         Guidance& guidance, std::function<void(const std::string&)> say);
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;
  /// Ends the thread; what waits is rolled back and refused.
  ~Broker();

  void start();
  /// Any thread. `reply` is called once, on the broker's thread. Throws std::exception: refused.
  void serve(const protocol::Message& request, const Reply& reply);
  /// Has it look at everything now. Any thread.
  void look_now();
  /// When the base has ended.
  std::function<void()> on_base_end;
  /// Not while the thread runs.
  Care& care() { return care_; }
  void stop();

 private:
  struct Request {
    SizeRequest size;
    std::string text;
    std::size_t component = 0;
    Time deadline;
    Reply reply;  // null when nobody waits
  };
  void run();
  void handle(const Request& request);
  std::optional<Request> next(Seconds limit);
  std::string why_stop();
  protocol::Message answer(const ResizeReport& report, Seconds total) const;

  BrokerPace& pace_;
  const BrokerSettings& settings_;
  Desk desk_;
  Care care_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Request> queue_;
  Time next_look_{};
  bool look_now_ = false;
  bool base_ended_ = false;
  std::thread thread_;
};

}  // namespace bellows::scheduler
