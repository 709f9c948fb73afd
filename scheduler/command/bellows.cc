// SPDX-License-Identifier: Apache-2.0
// bellows: the user's word with a running job. See bellows(1).
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "scheduler/command/control_command.h"

namespace {

// Reports are made by a program of its own, which is not there where only the plugin and the
// commands for jobs are. The one beside us, else that in PATH.
int become_report(char** argv) {
  std::error_code none;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  std::string program = "bellows-report";
  argv[0] = program.data();
  execv((beside / program).c_str(), argv);
  execvp(program.c_str(), argv);
  std::cerr << "bellows: bellows-report cannot be started: " << std::strerror(errno)
            << "; it belongs to the trainer (./configure without --disable-trainer)\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "report") == 0) return become_report(argv + 1);
  signal(SIGPIPE, SIG_IGN);  // a reader that went away is an error like any other
  return bellows::scheduler::control_command({argv + 1, argv + argc}, std::cout, std::cerr);
}
