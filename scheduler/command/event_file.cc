// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/event_file.h"

#include "protocol/line_file.h"

namespace bellows::scheduler {

void read_event_file(const std::string& path,
                     const std::function<void(const protocol::JobEvent&)>& take,
                     const std::function<void(const std::string&)>& complain) {
  protocol::read_json_lines(
      path, [&](const boost::json::object& line) { take(protocol::job_event_from_json(line)); },
      complain);
}

}  // namespace bellows::scheduler
