// SPDX-License-Identifier: Apache-2.0
// A job as Prometheus sees it: docs/metrics.md lists the metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "protocol/job_event.h"
#include "protocol/message.h"

namespace bellows::elastic {

/// What has happened to a job since its bellows-run began, by kind of event.
class EventCounts {
 public:
  struct Count {
    std::int64_t events = 0;
    std::int64_t nodes = 0;  // that they were about
    double seconds = 0;      // that they took
  };
  void add(const protocol::JobEvent& event);
  /// Zeros for a kind that has not been.
  Count of(const std::string& kind) const;

 private:
  std::map<std::string, Count> counts_;
};

/// In the text format. `status` is the answer to "status" (docs/man/bellows.1, PROTOCOL).
std::string run_metrics(const protocol::Message& status, const EventCounts& counts);

}  // namespace bellows::elastic
