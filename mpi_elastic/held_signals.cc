// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/held_signals.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace bellows::elastic {

namespace {

// What a thread does wrong itself, and what belongs to libraries.
constexpr std::array kNotHeld = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL,
                                 SIGTRAP, SIGSYS, SIGABRT, SIGCHLD};

int noted_in = -1;

// The file begins with the set of those that are held; a byte for each that has come follows.
extern "C" void note_signal(int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = ::write(noted_in, &byte, 1);
  errno = error;
}

bool has_handler(int number) {
  struct sigaction action{};
  if (sigaction(number, nullptr, &action) != 0) return false;
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

}  // namespace

HeldSignals::HeldSignals(const sigset_t& blocked)
    : blocked_(blocked), file_(memfd_create("bellows-signals", 0)) {
  sigemptyset(&held_);
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (has_handler(number) && sigismember(&blocked_, number) == 0) sigaddset(&held_, number);
  }
  for (const int number : kNotHeld) sigdelset(&held_, number);
  if (file_ < 0 || ::write(file_, &held_, sizeof held_) != sizeof held_) return;
  noted_in = file_;
  struct sigaction note{};
  note.sa_handler = note_signal;
  note.sa_flags = SA_RESTART;
  sigfillset(&note.sa_mask);
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (sigismember(&held_, number) == 1) sigaction(number, &note, nullptr);
  }
}

void HeldSignals::block() const {
  pthread_sigmask(SIG_SETMASK, &held_, nullptr);
  pthread_sigmask(SIG_BLOCK, &blocked_, nullptr);
}

void HeldSignals::release(int file) {
  sigset_t held;
  if (pread(file, &held, sizeof held, 0) == sizeof held) {
    pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
    unsigned char number = 0;
    for (off_t at = sizeof held; pread(file, &number, 1, at) == 1; ++at) raise(number);
  }
  ::close(file);
}

}  // namespace bellows::elastic
