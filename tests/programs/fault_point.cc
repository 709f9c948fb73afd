// SPDX-License-Identifier: Apache-2.0
// What happens at the places of mpi_elastic/fault_point.h in a test's program:
//
//   BELLOWS_FAULT=NAME[@EPOCH]   die (SIGKILL) at this place, in this epoch or a later one (1);
//                                0: before any, as joiners
//   BELLOWS_FAULT_FILE=FILE      ... if FILE is not there yet: it is made by the one that dies
//   BELLOWS_FAULT_FILES=PREFIX   ... each process once, as files PREFIX<pid> tell
//   BELLOWS_FAULT_ACTION=hang    never come back, instead of dying; sleep: after three seconds
//   BELLOWS_FAULT_TRACE=FILE     append the name of every place that is reached, and the epoch
#include "mpi_elastic/fault_point.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

int number_after(const std::string& text, int otherwise) {
  const std::size_t at = text.rfind('@');
  return at == std::string::npos ? otherwise : std::atoi(text.c_str() + at + 1);
}

void trace(const std::string& name, int epoch) {
  const std::string path = variable("BELLOWS_FAULT_TRACE");
  if (path.empty()) return;
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const std::string line = name + " " + std::to_string(epoch) + "\n";
  if (file < 0 || write(file, line.data(), line.size()) < 0) std::abort();
  close(file);
}

// A process that has replaced itself has the same id, and has had its turn.
bool is_my_turn() {
  std::string path = variable("BELLOWS_FAULT_FILE");
  if (path.empty()) path = variable("BELLOWS_FAULT_FILES") + std::to_string(getpid());
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  close(file);
  return true;
}

}  // namespace

extern "C" void bellows_fault_point(const char* name) {
  // The namespace of the epoch: JOB@EPOCH. A joiner has none yet.
  const int epoch = number_after(variable("PMIX_NAMESPACE"), 0);
  trace(name, epoch);
  const std::string fault = variable("BELLOWS_FAULT");
  const int wanted = number_after(fault, 1);
  if (fault.substr(0, fault.find('@')) != name || epoch < wanted) return;
  if (wanted == 0 && epoch != 0) return;
  if (!is_my_turn()) return;
  const std::string action = variable("BELLOWS_FAULT_ACTION");
  if (action == "sleep") {
    sleep(3);
    return;
  }
  if (action != "hang") raise(SIGKILL);
  while (true) pause();
}
