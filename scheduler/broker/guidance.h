// SPDX-License-Identifier: Apache-2.0
// What bellowsd and the broker's thread have to tell each other. All calls may be made by any
// thread.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "scheduler/policy/elastic_job.h"

namespace bellows::scheduler {

class Guidance {
 public:
  // The broker's side.
  /// The job as it is now.
  void publish(const ElasticJob& job);
  /// While one exists a change is under way: so many nodes are asked for, or these given back.
  class Change {
   public:
    Change(Guidance& guidance, int coming, const std::vector<std::string>& going)
        : guidance_(guidance) {
      guidance_.set_change(coming, going);
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    ~Change() { guidance_.set_change(0, {}); }

   private:
    Guidance& guidance_;
  };
  /// Whether bellowsd decides, and what it has ordered last, once.
  bool guided() const;
  std::optional<Decision> take_order();

  // The link's side.
  void set_guided(bool guided);
  void order(const Decision& order);
  /// None before the first publish().
  std::optional<ElasticJob> job() const;

  /// Called by the one side when the other should look; to be set before there are threads.
  std::function<void()> on_change;  // of the job
  std::function<void()> on_order;

 private:
  void set_change(int coming, const std::vector<std::string>& going);

  mutable std::mutex mutex_;
  std::optional<ElasticJob> job_;
  int coming_ = 0;
  std::vector<std::string> going_;
  bool guided_ = false;
  std::optional<Decision> order_;
};

}  // namespace bellows::scheduler
