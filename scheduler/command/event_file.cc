// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/event_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace bellows::scheduler {

void read_event_file(const std::string& path,
                     const std::function<void(const protocol::JobEvent&)>& take,
                     const std::function<void(const std::string&)>& complain) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) {
    throw std::runtime_error(path + ": " + (failed ? failed.message() : "is not a file"));
  }
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": " + std::strerror(errno));
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    try {
      take(protocol::job_event_from_json(boost::json::parse(line).as_object()));
    } catch (const std::exception&) {
      complain(path + ": line " + std::to_string(number) +
               (file.eof() ? " is not whole" : " is damaged") + ", and left out");
    }
  }
  if (file.bad()) throw std::runtime_error(path + ": " + std::strerror(errno));
}

}  // namespace bellows::scheduler
