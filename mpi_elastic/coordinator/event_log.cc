// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/event_log.h"

#include <chrono>
#include <stdexcept>
#include <utility>

namespace bellows::elastic {
namespace json = boost::json;

void EventLog::write_to(const std::string& file) {
  try {
    file_.open(file);
  } catch (const std::runtime_error& failed) {
    throw std::runtime_error(std::string("--events=") + failed.what());
  }
}

std::string EventLog::add(Event event) {
  event.number = next_++;
  event.time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string failed = file_.is_open() ? file_.append(json::serialize(to_json(event))) : "";
  events_.push_back(std::move(event));
  if (events_.size() > kKept) events_.pop_front();
  return failed.empty() || std::exchange(complained_, true) ? "" : "--events=" + failed;
}

std::vector<EventLog::Event> EventLog::after(std::int64_t number, std::size_t most) const {
  std::vector<Event> later;
  for (const Event& event : events_) {
    if (event.number > number && later.size() < most) later.push_back(event);
  }
  return later;
}

}  // namespace bellows::elastic
