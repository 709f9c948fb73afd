// SPDX-License-Identifier: Apache-2.0
// bellows: the user's word with a running job. See bellows(1).
#include <signal.h>

#include <iostream>

#include "scheduler/command/control_command.h"

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);  // a reader that went away is an error like any other
  return bellows::scheduler::control_command({argv + 1, argv + argc}, std::cout, std::cerr);
}
