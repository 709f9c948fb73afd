// SPDX-License-Identifier: Apache-2.0
// The file of bellowsd's events (docs/man/bellowsd.8, EVENTS): one JSON object on a line, for
// `bellows picture` and whoever wants to know who had which nodes when.
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "protocol/line_file.h"
#include "scheduler/picture/occupancy.h"

namespace bellows::scheduler {

class DaemonEvents {
 public:
  /// From now on events go there; "": nowhere. Opens a file of the same name again, which may have
  /// been moved away. Throws std::runtime_error naming the file; then all stays as it was.
  void open(const std::string& path, boost::json::object begin);
  bool is_open() const { return file_.is_open(); }

  /// Adds the time. What cannot be written is said once in the log.
  void write(const char* kind, boost::json::object event = {});
  /// What a look at the cluster has shown; also a sign of life, at times.
  void write_look(const std::vector<JobView>& jobs, const std::vector<NodeView>& nodes,
                  const std::set<JobId>& elastic);

 private:
  std::string path_;
  protocol::LineFile file_;
  bool complained_ = false;
  Occupancy occupancy_;
  std::set<std::string> nodes_;
  std::chrono::steady_clock::time_point written_;
};

}  // namespace bellows::scheduler
