// SPDX-License-Identifier: Apache-2.0
#include "scheduler/broker/guidance.h"

#include <algorithm>
#include <utility>

namespace bellows::scheduler {

void Guidance::publish(const ElasticJob& job) {
  bool news = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    news = !job_ || job_->held != job.held;
    job_ = job;
  }
  if (news && on_change) on_change();
}

void Guidance::set_change(int coming, const std::vector<std::string>& going) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    coming_ = coming;
    going_ = going;
  }
  if (on_change) on_change();
}

bool Guidance::guided() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return guided_;
}

std::optional<Decision> Guidance::take_order() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(order_, std::nullopt);
}

void Guidance::set_guided(bool guided) {
  const std::lock_guard<std::mutex> lock(mutex_);
  guided_ = guided;
  if (!guided) order_.reset();
}

void Guidance::order(const Decision& order) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    order_ = order;
  }
  if (on_order) on_order();
}

// An order that has not been looked at yet is a change that is under way.
std::optional<ElasticJob> Guidance::job() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::optional<ElasticJob> job = job_;
  if (!job) return job;
  job->coming = coming_;
  std::vector<std::string> going = going_;
  if (order_) {
    job->coming += order_->grow;
    going.insert(going.end(), order_->give_back.begin(), order_->give_back.end());
  }
  for (const std::string& node : going) {
    if (std::ranges::find(job->held, node) != job->held.end()) job->going.insert(node);
  }
  return job;
}

}  // namespace bellows::scheduler
