// SPDX-License-Identifier: Apache-2.0
#include "scheduler/broker/brick_script.h"

#include <algorithm>

namespace bellows::scheduler {
namespace {

constexpr std::chrono::minutes kYear{365 * 24 * 60};
constexpr const char* kEndName = "USR1";  // of kBrickEnd
static_assert(kBrickEnd == SIGUSR1);

}  // namespace

std::string brick_script(const JobView& base, std::chrono::seconds interval,
                         std::chrono::seconds patience) {
  const std::string job = std::to_string(base.id);
  const long least = std::max<long>(interval.count(), 1);
  const std::string seconds = std::to_string(least);
  // So many looks in a row are at least `patience` apart.
  const std::string looks = std::to_string((patience.count() + least - 1) / least + 1);
  const std::string restarts = "*Restarts=" + std::to_string(base.restarts) + "\\ *) ";
  return "#!/bin/sh\n"
         "# Holds nodes for job " +
         job +
         ", for as long as that runs.\n"
         // Before a kill Slurm sends SIGTERM: the time until then is the ranks'. When they have
         // left the broker says so, or a cancelled brick would keep its node for Slurm's KillWait.
         "sleeps= suspended=0\n"
         "trap '' TERM\n"
         "trap '[ -z \"$sleeps\" ] || kill -KILL \"$!\"; exit 0' " +
         kEndName +
         "\n"
         "while :; do\n"
         "  sleeps=yes\n"
         "  sleep $((" +
         seconds + " + $$ % " + std::to_string(std::max<long>(interval.count() / 5, 0) + 1) +
         ")) &\n"
         "  wait \"$!\" || exit 0\n"
         "  sleeps=\n"
         "  state=$(scontrol show job " +
         job +
         " 2>&1)\n"
         "  case $state in\n"
         "    *JobState=RUNNING" +
         restarts +
         "suspended=0 ;;\n"
         "    *JobState=SUSPENDED" +
         restarts + "suspended=$((suspended + 1)); [ $suspended -lt " + looks +
         " ] || exit 0 ;;\n"
         "    *JobState=* | *'Invalid job id'*) exit 0 ;;\n"
         "    *) ;; # the controller does not answer\n"
         "  esac\n"
         "done\n";
}

std::chrono::minutes brick_limit(const JobView& base, Time now) {
  if (!base.end) return kYear;
  return std::clamp(std::chrono::floor<std::chrono::minutes>(*base.end - now),
                    std::chrono::minutes(0), kYear);
}

}  // namespace bellows::scheduler
