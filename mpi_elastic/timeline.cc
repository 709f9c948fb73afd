// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/timeline.h"

#include <fcntl.h>
#include <mpi.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "protocol/fd.h"

namespace bellows {

std::atomic<bool> Timeline::on_ = false;

namespace {

using Clock = Timeline::Clock;

constexpr std::size_t kMostKept = 64 << 10;  // bytes
constexpr auto kLongestKept = std::chrono::seconds(1);
constexpr int kExchanges = 8, kTag = 4711;
// For tests: microseconds by which this process' clock is to be wrong.
constexpr const char* kSkewVariable = "BELLOWS_TIMELINE_SKEW";

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double skew() {
  const char* said = std::getenv(kSkewVariable);
  return said != nullptr ? std::atof(said) : 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Processes that see the same clock have the same.
std::uint64_t machine() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return std::hash<std::string>()(id + std::to_string(skew()));
}

class Recorder {
 public:
  void open(const std::string& file, std::uint64_t most_bytes) {
    make(file);
    name_ = file;
    // (A pipe without a reader would be waited for.)
    file_ = protocol::Fd(::open(file.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK));
    if (!file_.valid()) fail(file, std::strerror(errno));
    struct stat status{};
    char first = 0;
    if (fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) fail(file, "is not a file");
    if (pread(file_.get(), &first, 1, 0) != 1 || first != '[')
      fail(file, "is there already, and is no timeline; name another file");
    most_bytes_ = most_bytes;
    track_ = std::hash<std::string>()(host_name()) % 1'000'000 * 1000 +
             static_cast<std::uint64_t>(getpid()) % 1'000'000'000;
    set_clock(0);
  }

  void add(const std::string& name, Clock::time_point begin, Clock::time_point end,
           std::uint64_t bytes) {
    const int thread = thread_number();
    const std::lock_guard lock(mutex_);
    std::array<char, 160> tail{};
    std::snprintf(tail.data(), tail.size(),
                  "\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%llu,\"tid\":%d", at(begin),
                  microseconds(end - begin), static_cast<unsigned long long>(track_), thread);
    std::string line = "{\"name\":\"" + escaped(name) + tail.data();
    if (bytes > 0) line += ",\"args\":{\"bytes\":" + std::to_string(bytes) + "}";
    keep(line + "},\n", end);
  }

  bool opened() const { return file_.valid(); }

  void describe(const char* what, const char* member, const std::string& value, int thread) {
    const std::lock_guard lock(mutex_);
    keep("{\"name\":\"" + std::string(what) + "\",\"ph\":\"M\",\"pid\":" + std::to_string(track_) +
             ",\"tid\":" + std::to_string(thread) + ",\"args\":{\"" + member + "\":" + value +
             "}},\n",
         Clock::now());
  }

  /// Microseconds since 1970 by the clock that all ranks share.
  double now() {
    const std::lock_guard lock(mutex_);
    return at(Clock::now());
  }
  double offset() {
    const std::lock_guard lock(mutex_);
    return offset_;
  }
  /// `offset` to the clock of this machine. Steps of that clock since the last call are followed.
  void set_clock(double offset) {
    const std::lock_guard lock(mutex_);
    offset_ = offset;
    const auto real = std::chrono::system_clock::now().time_since_epoch();
    base_ = std::chrono::duration<double, std::micro>(real).count() -
            microseconds(Clock::now().time_since_epoch()) + skew();
  }

  void set_first(bool first) {
    const std::lock_guard lock(mutex_);
    first_ = first;
    tell_if_full();
  }

  void flush() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) write_out();
  }

  static int thread_number() {
    static std::atomic<int> next = 1;
    thread_local const int number = next++;
    return number;
  }

 private:
  [[noreturn]] static void fail(const std::string& file, const std::string& why) {
    throw std::runtime_error("timeline " + file + ": " + why);
  }

  /// With its first line, whoever comes first.
  static void make(const std::string& file) {
    if (access(file.c_str(), F_OK) == 0) return;
    const std::string mine = file + "." + host_name() + "." + std::to_string(getpid());
    const protocol::Fd made(::open(mine.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!made.valid()) fail(file, std::strerror(errno));
    const bool written = write(made.get(), "[\n", 2) == 2;
    const int failed = written && link(mine.c_str(), file.c_str()) != 0 ? errno : 0;
    unlink(mine.c_str());
    if (!written) fail(file, "cannot be written: is the disk full?");
    if (failed != 0 && failed != EEXIST) fail(file, std::strerror(failed));
  }

  static std::string escaped(const std::string& text) {
    std::string safe;
    for (const char c : text) {
      if (c == '"' || c == '\\') safe += '\\';
      safe += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
    return safe;
  }

  double at(Clock::time_point time) const {
    return microseconds(time.time_since_epoch()) + base_ + offset_;
  }

  void keep(const std::string& line, Clock::time_point now) {
    kept_ += line;
    if (kept_.size() >= kMostKept || now - written_ >= kLongestKept) write_out();
  }

  /// A file that is full, or cannot be written, gets no more: the program is more important.
  void write_out() {
    written_ = Clock::now();
    struct stat status{};
    if (!full_ && !kept_.empty()) {
      full_ = fstat(file_.get(), &status) != 0 ||
              static_cast<std::uint64_t>(status.st_size) + kept_.size() > most_bytes_ ||
              write(file_.get(), kept_.data(), kept_.size()) != static_cast<ssize_t>(kept_.size());
      tell_if_full();
    }
    kept_.clear();
  }

  void tell_if_full() {
    if (!full_ || !first_ || std::exchange(told_, true)) return;
    std::fprintf(stderr,
                 "bellows: timeline %s: has reached its %.4g MB, or cannot be written; what comes "
                 "now is left out\n",
                 name_.c_str(), static_cast<double>(most_bytes_) / (1 << 20));
  }

  std::mutex mutex_;
  protocol::Fd file_;
  std::uint64_t most_bytes_ = 0, track_ = 0;
  double base_ = 0, offset_ = 0;
  std::string kept_;
  Clock::time_point written_ = Clock::now();
  bool full_ = false;
  bool first_ = false, told_ = false;  // this process is rank 0, and has said that it is full
  std::string name_;
};

// Never destroyed: threads may still record.
Recorder& recorder() {
  static auto* const only = new Recorder;
  return *only;
}

/// Rank 0's side: what time it is.
void tell_time(MPI_Comm communicator, int rank) {
  for (int i = 0; i < kExchanges; ++i) {
    check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, rank, kTag, communicator, MPI_STATUS_IGNORE),
              "MPI_Recv");
    const double now = recorder().now();
    check_mpi(MPI_Send(&now, 1, MPI_DOUBLE, rank, kTag, communicator), "MPI_Send");
  }
}

/// The offset by the exchange that took the least time: the answer is from its middle.
double ask_time(MPI_Comm communicator) {
  double best = 0, shortest = -1;
  for (int i = 0; i < kExchanges; ++i) {
    double theirs = 0;
    const double begin = recorder().now();
    check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, 0, kTag, communicator), "MPI_Send");
    check_mpi(MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, kTag, communicator, MPI_STATUS_IGNORE),
              "MPI_Recv");
    const double end = recorder().now();
    if (shortest >= 0 && end - begin >= shortest) continue;
    shortest = end - begin;
    best = theirs - (begin + end) / 2;
  }
  return best;
}

void align(const World& world) {
  const MPI_Comm communicator = world.communicator();
  const std::uint64_t own = machine();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
  check_mpi(MPI_Allgather(&own, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, communicator),
            "MPI_Allgather");
  double offset = recorder().offset();
  check_mpi(MPI_Bcast(&offset, 1, MPI_DOUBLE, 0, communicator), "MPI_Bcast");
  if (world.rank() > 0) recorder().set_clock(own == all[0] ? offset : 0);
  for (int rank = 1; rank < world.size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)] == all[0]) continue;
    if (world.rank() == 0) tell_time(communicator, rank);
    if (world.rank() == rank) recorder().set_clock(ask_time(communicator));
  }
}

}  // namespace

void Timeline::open(const std::string& file, std::uint64_t most_bytes) {
  recorder().open(file, most_bytes);
  on_ = true;
  std::atexit(flush);
  name_thread("program");
}

void Timeline::pause(bool paused) {
  if (recorder().opened()) on_ = !paused;
}

void Timeline::enter(const World& world, std::uint32_t epoch) {
  if (!on()) return;
  align(world);
  recorder().set_first(world.rank() == 0);
  const std::string rank = std::to_string(world.rank());
  recorder().describe("process_name", "name",
                      "\"rank " + rank + " on " + host_name() + ", process " +
                          std::to_string(getpid()) + ", since world " + std::to_string(epoch) +
                          "\"",
                      0);
  recorder().describe("process_sort_index", "sort_index", rank, 0);
  recorder().flush();
}

void Timeline::add(const std::string& name, Clock::time_point begin, Clock::time_point end,
                   std::uint64_t bytes) {
  if (on()) recorder().add(name, begin, end, bytes);
}

void Timeline::name_thread(const char* name) {
  if (on())
    recorder().describe("thread_name", "name", "\"" + std::string(name) + "\"",
                        Recorder::thread_number());
}

void Timeline::flush() {
  if (recorder().opened()) recorder().flush();
}

}  // namespace bellows
