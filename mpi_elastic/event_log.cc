// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace bellows::elastic {
namespace json = boost::json;

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw std::runtime_error("--events=" + path + ": " + why);
}

}  // namespace

void EventLog::write_to(const std::string& file) {
  // (A pipe without a reader would be waited for.)
  protocol::Fd opened(
      open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666));
  if (!opened.valid()) fail(file, std::strerror(errno));
  struct stat status{};
  if (fstat(opened.get(), &status) != 0) fail(file, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(file, "is not a file");
  char last = '\n';
  if (status.st_size > 0 && pread(opened.get(), &last, 1, status.st_size - 1) != 1) {
    fail(file, std::strerror(errno));
  }
  torn_ = last != '\n';  // of one that was killed as it wrote
  path_ = file;
  file_ = std::move(opened);
}

std::string EventLog::add(Event event) {
  event.number = next_++;
  event.time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string failed = file_.valid() ? append(event) : "";
  events_.push_back(std::move(event));
  if (events_.size() > kKept) events_.pop_front();
  return failed.empty() || std::exchange(complained_, true) ? "" : failed;
}

std::string EventLog::append(const Event& event) {
  const std::string line = (torn_ ? "\n" : "") + json::serialize(to_json(event)) + "\n";
  ssize_t written = 0;
  do {
    written = ::write(file_.get(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) {
    torn_ = false;
    return "";
  }
  torn_ = torn_ || written > 0;
  return "--events=" + path_ + ": " + (written < 0 ? std::strerror(errno) : "the disk is full") +
         "; events are missing there";
}

std::vector<EventLog::Event> EventLog::after(std::int64_t number, std::size_t most) const {
  std::vector<Event> later;
  for (const Event& event : events_) {
    if (event.number > number && later.size() < most) later.push_back(event);
  }
  return later;
}

}  // namespace bellows::elastic
