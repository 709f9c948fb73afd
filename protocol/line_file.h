// SPDX-License-Identifier: Apache-2.0
// A file to which lines are appended, each by one call, so that a process that is killed leaves at
// most one line that is not whole; and how such a file is read.
#pragma once

#include <boost/json.hpp>
#include <functional>
#include <string>

#include "protocol/fd.h"

namespace bellows::protocol {

class LineFile {
 public:
  /// Lines go to this file from now on, which is made, with `mode`, if it is absent. Throws
  /// std::runtime_error naming it and the reason: it is no regular file, say.
  void open(const std::string& path, unsigned mode = 0666);
  bool is_open() const { return file_.valid(); }
  /// `line` without its end. Returns "" or why the file lacks it. After a line that was cut off
  /// another one begins anew.
  std::string append(const std::string& line);

 private:
  std::string path_;
  Fd file_;
  bool torn_ = false;  // its last line is not whole
};

/// Calls `take` for each line, an object of JSON. A line that is none, or of which `take` throws,
/// is left out, and `complain` told so with its number; of many only the first, and how many more
/// there are. Throws std::runtime_error naming the file
/// when it cannot be read.
void read_json_lines(const std::string& path,
                     const std::function<void(const boost::json::object&)>& take,
                     const std::function<void(const std::string&)>& complain);

}  // namespace bellows::protocol
