// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/rank_control.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "mpi_elastic/elastic_world.h"
#include "mpi_elastic/held_signals.h"
#include "protocol/size_hints_json.h"

extern char** environ;

namespace bellows::elastic {
using protocol::Message;

namespace {

// How long a process may stay in a stage of an epoch that is known to be over. Inside it may be
// computing: an error of MPI's wakes it as soon as it communicates.
constexpr double kEnteringSeconds = 0.5;
constexpr double kClosingSeconds = 1;
constexpr double kInsideSeconds = 15;
constexpr double kUpdateSeconds = 5;  // for an update in hand to be done
constexpr int kWatchMilliseconds = 50;

double seconds_from(const char* name, double otherwise) {
  const char* said = std::getenv(name);
  const double value = said != nullptr ? std::atof(said) : 0;
  return value > 0 ? value : otherwise;
}

bool starts_with_name(const char* variable, const char* name) {
  const std::size_t length = std::strlen(name);
  return std::strncmp(variable, name, length) == 0 && variable[length] == '=';
}

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at < all.size(); at += arguments.back().size() + 1) {
    arguments.emplace_back(all.c_str() + at);
  }
  return arguments;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::unique_ptr<RankControl> RankControl::from_environment(Save save) {
  const char* said = std::getenv(kControlVariable);
  if (said == nullptr) return nullptr;
  const int fd = std::atoi(said);
  // For this process alone, not for what it may start.
  unsetenv(kControlVariable);
  if (const char* held = std::getenv(kSignalsVariable)) {
    HeldSignals::release(std::atoi(held));
    unsetenv(kSignalsVariable);
  }
  if (fd <= 2 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return nullptr;
  return std::unique_ptr<RankControl>(new RankControl(fd, std::move(save)));
}

RankControl::RankControl(int fd, Save save) : fd_(fd), save_(std::move(save)) {
  // The program's signals are for the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  sigterm_blocked_ = sigismember(&before, SIGTERM) == 1;  // by the agent: see AgentSettings::notice
  thread_ = std::thread([this] { listen(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RankControl::~RankControl() {
  closing_ = true;
  shutdown(fd_, SHUT_RDWR);
  thread_.join();
  ::close(fd_);
}

void RankControl::send(const Message& message) {
  const std::string frame = protocol::encode(message);
  const std::lock_guard lock(send_mutex_);
  for (std::size_t done = 0; done < frame.size();) {
    const ssize_t n = ::send(fd_, frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

bool RankControl::wait_for_change(std::chrono::duration<double> limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return change_wanted(); });
}

bool RankControl::wait_for_place(std::chrono::duration<double> limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return released_ || newest_ > epoch_; });
}

std::optional<Place> RankControl::take_place() {
  const std::lock_guard lock(mutex_);
  if (place_.epoch <= epoch_) return std::nullopt;
  return place_;
}

void RankControl::set_stage(Stage stage, std::uint32_t epoch) {
  const std::lock_guard lock(mutex_);
  stage_ = stage;
  epoch_ = epoch;
  stage_since_ = Clock::now().time_since_epoch().count();
}

void RankControl::note_in_step() {
  const std::uint32_t epoch = epoch_;
  if (in_step_.exchange(epoch) == epoch || stage_ != Stage::inside) return;
  Message message("in-step");
  message.head["epoch"] = epoch;
  send(message);
}

void RankControl::set_progress(const Progress& progress) {
  step_ = progress.step;
  speed_ = progress.samples_per_second;
  samples_left_ = progress.samples_left;
  batch_ = progress.batch;
  learning_rate_ = progress.learning_rate;
  progress_epoch_ = epoch_.load();
  const std::lock_guard lock(mutex_);
  hints_.reset();
  if (!progress.hints) return;
  try {  // a program's numbers may be none
    hints_ = protocol::size_hints_from_json(protocol::to_json(*progress.hints));
  } catch (const protocol::ProtocolError&) {
    return;
  }
}

void RankControl::listen() {
  protocol::Decoder decoder;
  std::array<char, 65536> chunk;
  while (!closing_) {
    pollfd readable{fd_, POLLIN, 0};
    const bool watching = newest_ > epoch_;
    if (poll(&readable, 1, watching ? kWatchMilliseconds : -1) > 0) {
      const ssize_t n = recv(fd_, chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        // Without its agent a rank is nobody's. The kernel ends the agent's own children
        // (PR_SET_PDEATHSIG), but not theirs: a rank may have been started by a script.
        if (!closing_) kill(getpid(), SIGKILL);
        return;
      }
      if (n > 0) decoder.feed({chunk.data(), static_cast<std::size_t>(n)});
      try {
        while (const std::optional<Message> message = decoder.next()) receive(*message);
      } catch (const protocol::ProtocolError& wrong) {
        std::fprintf(stderr, "bellows: cannot understand the agent: %s\n", wrong.what());
        return;
      }
    }
    watch();
  }
}

void RankControl::receive(const Message& message) {
  const std::string_view type = message.type();
  if (type == "ping") {
    answer_ping();
    return;
  }
  const std::lock_guard lock(mutex_);
  if (type == "world") {
    const auto epoch = static_cast<std::uint32_t>(message.number("epoch"));
    if (epoch <= place_.epoch) return;
    place_.epoch = epoch;
    place_.environment =
        boost::json::value_to<std::vector<std::string>>(message.head.at("environment"));
    if (newest_ <= epoch_) place_since_ = Clock::now();  // since when it should have left
    place_urgent_ = message.flag("urgent");
    newest_ = epoch;
    leaving_ = released_ = false;
  } else if (type == "leave") {
    leaving_ = true;
  } else if (type == "release") {
    released_ = true;
  }
  changed_.notify_all();
}

void RankControl::answer_ping() {
  Message pong("pong");
  pong.head["step"] = step_.load();
  pong.head["samples_per_second"] = speed_.load();
  pong.head["samples_left"] = samples_left_.load();
  if (batch_ > 0) pong.head["batch"] = batch_.load();
  if (learning_rate_ >= 0) pong.head["learning_rate"] = learning_rate_.load();
  pong.head["epoch"] = progress_epoch_.load();
  {
    const std::lock_guard lock(mutex_);
    if (hints_) pong.head["hints"] = protocol::to_json(*hints_);
  }
  send(pong);
}

// Replaces the process when the program's thread has been in its stage for too long.
void RankControl::watch() {
  const Stage stage = stage_;
  if (stage == Stage::outside) return;
  if (newest_ <= epoch_) return;
  if (stage == Stage::inside && !place_urgent_) return;  // till the end of its step
  double limit = kEnteringSeconds;
  if (stage == Stage::closing) limit = kClosingSeconds;
  if (stage == Stage::inside) limit = seconds_from("BELLOWS_STUCK_SECONDS", kInsideSeconds);
  Clock::time_point since{Clock::duration(stage_since_)};
  {
    const std::lock_guard lock(mutex_);
    since = std::max(since, place_since_);
  }
  if (std::chrono::duration<double>(Clock::now() - since).count() > limit) replace_process();
}

void RankControl::replace_process() {
  if (replacing_.exchange(true)) {
    while (true) pause();  // the other thread is about it
  }
  // Not in the middle of an update; an update that does not end is a program that is stuck.
  std::unique_lock update(update_, std::defer_lock);
  const auto until = Clock::now() + std::chrono::duration<double>(kUpdateSeconds);
  while (!update.try_lock() && Clock::now() < until) std::this_thread::yield();
  const int file = save_ && update.owns_lock() ? memfd_create("bellows-state", 0) : -1;
  if (file < 0) {
    std::fprintf(stderr, "bellows: stuck in MPI in epoch %u, and no state to go on with; ending\n",
                 epoch_.load());
    _exit(EXIT_FAILURE);
  }
  sigset_t blocked;
  sigemptyset(&blocked);
  if (sigterm_blocked_) sigaddset(&blocked, SIGTERM);
  const HeldSignals held(blocked);
  try {
    save_(file);
    lseek(file, 0, SEEK_SET);
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "bellows: cannot save the state: %s\n", failed.what());
    _exit(EXIT_FAILURE);
  }
  send(Message("replacing"));  // until it is ready again it does not answer
  std::fflush(nullptr);
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "PMIX_", 5) == 0 && std::strncmp(*variable, "PMIX_MCA_", 9) != 0)
      continue;
    if (starts_with_name(*variable, kJoinerVariable) ||
        starts_with_name(*variable, kStateVariable) ||
        starts_with_name(*variable, kSignalsVariable))
      continue;
    environment.emplace_back(*variable);
  }
  environment.push_back(std::string(kControlVariable) + "=" + std::to_string(fd_));
  environment.push_back(std::string(kStateVariable) + "=" + std::to_string(file));
  if (held.file() >= 0)
    environment.push_back(std::string(kSignalsVariable) + "=" + std::to_string(held.file()));
  std::vector<std::string> arguments = own_arguments();
  // Everything else closes: sockets to the dead, memory of the old world.
  syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  fcntl(fd_, F_SETFD, 0);
  fcntl(file, F_SETFD, 0);
  if (held.file() >= 0) fcntl(held.file(), F_SETFD, 0);
  held.block();
  std::array<char, 4096> program{};
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) <= 0 ||
      access(program.data(), X_OK) != 0) {
    std::strcpy(program.data(), "/proc/self/exe");  // it was removed
  }
  // The setting is a thread's, and this thread is the process from now on.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execve(program.data(), pointers(arguments).data(), pointers(environment).data());
  std::fprintf(stderr, "bellows: cannot replace the process: %s\n", std::strerror(errno));
  _exit(EXIT_FAILURE);
}

}  // namespace bellows::elastic
