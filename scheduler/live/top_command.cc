// SPDX-License-Identifier: Apache-2.0
#include "scheduler/live/top_command.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "protocol/fd.h"
#include "scheduler/command/daemon_client.h"
#include "scheduler/live/live_jobs.h"
#include "scheduler/live/live_text.h"
#include "scheduler/live/screen.h"

namespace bellows::scheduler {
namespace json = boost::json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kNoJob = 3;

LiveJobs::Settings settings_for(const Command& command) {
  LiveJobs::Settings settings;
  settings.jobs = command.jobs;
  settings.sockets = command.sockets;
  settings.everybody = command.everybody;
  const std::string file = daemon_configuration();
  if (access(file.c_str(), F_OK) != 0) return settings;
  settings.ask_daemon = [file](std::chrono::milliseconds limit) {
    try {
      const std::unique_ptr<protocol::Sealer> sealer = protocol::munge_sealer();
      return ask_daemon(read_daemon_settings(file), *sealer, protocol::Message("jobs"), limit);
    } catch (const std::exception& failed) {
      const std::string what = failed.what();
      throw std::runtime_error(what.starts_with("bellowsd") ? what : "bellowsd: " + what);
    }
  };
  return settings;
}

std::string json_line(const LiveRound& round) {
  json::array jobs;
  for (const LiveJob& job : round.jobs) jobs.push_back(to_json(job));
  return json::serialize(json::object{
      {"time", round.time}, {"jobs", std::move(jobs)}, {"notes", json::value_from(round.notes)}});
}

int print_rounds(const Command& command, LiveJobs& jobs, std::ostream& out) {
  auto next = Clock::now();
  for (bool first = true;; first = false) {
    const LiveRound round = jobs.look();
    if (command.json) {
      out << json_line(round) << '\n';
    } else {
      if (!first) out << '\n';
      for (const std::string& line : live_text(round, {})) out << line << '\n';
    }
    out.flush();
    if (command.once) return round.missing ? kNoJob : 0;
    if (!out) return 0;  // the reader is gone, which the caller says
    next = std::max(next + command.interval, Clock::now());
    std::this_thread::sleep_until(next);
  }
}

/// Looks on a thread of its own, since whoever does not answer shall not hold up the keys.
class Looker {
 public:
  explicit Looker(LiveJobs& jobs) : jobs_(jobs), done_(eventfd(0, EFD_CLOEXEC)) {
    if (!done_.valid()) throw std::runtime_error("no eventfd");
  }
  int descriptor() const { return done_.get(); }
  void begin() {
    if (thread_.joinable()) thread_.join();
    thread_ = std::thread([this] {
      LiveRound round = jobs_.look();
      {
        const std::lock_guard lock(mutex_);
        round_ = std::move(round);
      }
      const std::uint64_t one = 1;
      if (::write(done_.get(), &one, sizeof one) < 0) return;
    });
  }
  LiveRound take() {
    std::uint64_t count = 0;
    if (::read(done_.get(), &count, sizeof count) < 0) return {};
    const std::lock_guard lock(mutex_);
    return round_;
  }

 private:
  LiveJobs& jobs_;
  protocol::Fd done_;
  std::mutex mutex_;
  LiveRound round_;
  std::thread thread_;
};

/// The screen, the keys, the signals.
class Watch {
 public:
  Watch(const Command& command, LiveJobs& jobs) : command_(command), looker_(jobs) {
    sigemptyset(&signals_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) {
      sigaddset(&signals_, number);
    }
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    signal_fd_ = protocol::Fd(signalfd(-1, &signals_, SFD_CLOEXEC));
    if (!signal_fd_.valid()) throw std::runtime_error("no signalfd");
    screen_.emplace();
  }

  [[noreturn]] void run() {
    std::array<pollfd, 3> watched = {pollfd{signal_fd_.get(), POLLIN, 0},
                                     pollfd{looker_.descriptor(), POLLIN, 0},
                                     pollfd{STDIN_FILENO, POLLIN, 0}};
    auto next = Clock::now();
    bool looking = false;
    while (true) {
      if (!looking && Clock::now() >= next) {
        looker_.begin();
        looking = true;
        next = std::max(next + command_.interval, Clock::now());
      }
      const auto rest = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
      poll(watched.data(), watched.size(), looking ? -1 : static_cast<int>(std::max(rest, 0L)));
      if (watched[0].revents != 0) take_signal();
      if (watched[1].revents != 0) {
        round_ = looker_.take();
        looking = false;
        draw();
      }
      if (watched[2].revents != 0 && !take_key()) watched[2].fd = -1;  // no more will come
    }
  }

 private:
  // A look may be under way, which nobody needs to wait for.
  [[noreturn]] void end() {
    screen_->leave();
    std::cout.flush();
    _exit(0);
  }

  void draw() {
    if (round_ && !screen_->show(live_text(*round_, screen_->size()))) end();
  }

  bool take_key() {
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) <= 0) return false;
    if (key == 'q' || key == 'Q') end();
    return true;
  }

  void take_signal() {
    signalfd_siginfo info{};
    if (::read(signal_fd_.get(), &info, sizeof info) != sizeof info) return;
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGTSTP) {
      screen_->leave();
      raise(SIGSTOP);
      screen_->enter();
    } else if (number != SIGWINCH) {
      // As if it had not been caught: whoever has started this sees how it ended.
      screen_->leave();
      std::cout.flush();
      signal(number, SIG_DFL);
      pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
      raise(number);
      _exit(128 + number);
    }
    draw();
  }

  const Command& command_;
  sigset_t signals_{};
  protocol::Fd signal_fd_;
  Looker looker_;
  std::optional<Screen> screen_;
  std::optional<LiveRound> round_;
};

}  // namespace

int show_top(const Command& command, std::ostream& out) {
  LiveJobs jobs(settings_for(command));
  if (!command.json && !command.once && &out == &std::cout && Screen::usable()) {
    Watch(command, jobs).run();
  }
  return print_rounds(command, jobs, out);
}

}  // namespace bellows::scheduler
