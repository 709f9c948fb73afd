// SPDX-License-Identifier: Apache-2.0
#include "trainer/signals.h"

#include <unistd.h>

#include <csignal>

namespace bellows::trainer {

namespace {

volatile std::sig_atomic_t received = 0;

}  // namespace

void catch_stop_signals() {
  struct sigaction action{};
  action.sa_handler = [](int number) { received = number; };
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

int stop_signal() { return received; }

void repeat_stop_signal() {
  if (received != 0) kill(getpid(), received);
}

}  // namespace bellows::trainer
