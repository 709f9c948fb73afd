// SPDX-License-Identifier: Apache-2.0
// The events of a job: the newest in memory, and all in a file where the user wants one
// (--events), one JSON object on a line.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "protocol/job_event.h"
#include "protocol/line_file.h"

namespace bellows::elastic {

class EventLog {
 public:
  using Event = protocol::JobEvent;
  static constexpr std::size_t kKept = 1000;

  /// Events are appended to this file from now on, which is made if it is absent. Throws
  /// std::runtime_error naming it and the reason.
  void write_to(const std::string& file);
  /// Gives the event its number, and its time. Returns "" or, once, why the file lacks it.
  std::string add(Event event);

  /// The number of the newest, 0 if there is none.
  std::int64_t newest() const { return next_ - 1; }
  /// Those later than the one with this number, the oldest first, `most` of them.
  std::vector<Event> after(std::int64_t number, std::size_t most) const;

 private:
  std::deque<Event> events_;
  std::int64_t next_ = 1;
  protocol::LineFile file_;
  bool complained_ = false;
};

}  // namespace bellows::elastic
