// SPDX-License-Identifier: Apache-2.0
// The script that holds a companion's nodes, and how long it may.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include "scheduler/broker/brick_script.h"

namespace bellows::scheduler {
namespace {

using testing::HasSubstr;

TEST(Bricks, LookForTheirBase) {
  JobView base;
  base.id = 4711;
  base.restarts = 2;
  const std::string script = brick_script(base, std::chrono::seconds(20), std::chrono::seconds(60));
  EXPECT_THAT(script, HasSubstr("scontrol show job 4711"));
  EXPECT_THAT(script, HasSubstr("Restarts=2"));
  EXPECT_THAT(script, HasSubstr("20 + $$ % 5"));
}

TEST(Bricks, EndBeforeTheirBase) {
  JobView base;
  const Time now{std::chrono::seconds(1000)};
  EXPECT_EQ(brick_limit(base, now).count(), 365 * 24 * 60);
  base.end = now + std::chrono::seconds(119);
  EXPECT_EQ(brick_limit(base, now).count(), 1);
  base.end = now - std::chrono::seconds(1);
  EXPECT_EQ(brick_limit(base, now).count(), 0);
}

bool until(const std::function<bool()>& what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!what()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// Whether the process has a handler for the signal.
bool catches(pid_t process, int number) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) {
      return ((std::stoull(line.substr(7), nullptr, 16) >> (number - 1)) & 1) != 0;
    }
  }
  return false;
}

int children(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream list("/proc/" + id + "/task/" + id + "/children");
  int count = 0;
  for (pid_t child = 0; list >> child;) ++count;
  return count;
}

// As slurmd does with a job that is cancelled: SIGTERM to all of its processes, and then nothing
// for as long as KillWait says.
TEST(Bricks, EndByTheBrokersSignalAndNotBySlurmsWarning) {
  JobView base;
  base.id = 4711;
  const std::string script =
      brick_script(base, std::chrono::seconds(1000), std::chrono::seconds(60));
  const pid_t shell = fork();
  ASSERT_GE(shell, 0);
  if (shell == 0) {
    setpgid(0, 0);
    execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
    _exit(127);
  }
  ASSERT_TRUE(until([&] { return catches(shell, kBrickEnd) && children(shell) == 1; }));
  kill(-shell, SIGTERM);
  kill(shell, kBrickEnd);
  int status = 0;
  ASSERT_TRUE(until([&] { return waitpid(shell, &status, WNOHANG) == shell; }));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  // No `sleep` is left either, which slurmd would wait for.
  EXPECT_TRUE(until([&] { return kill(-shell, 0) != 0 && errno == ESRCH; }));
  kill(-shell, SIGKILL);
}

// How many looks the script takes when they find these states, one after the other; -1 if it goes
// on after the last.
int looks_until_end(const std::vector<std::string>& states) {
  JobView base;
  base.id = 4711;
  std::string script = brick_script(base, std::chrono::seconds(20), std::chrono::seconds(60));
  const std::string asks = "$(scontrol show job 4711 2>&1)";
  std::string finds = "; look=$((look + 1)); echo $look >&3; case $look in ";
  for (std::size_t i = 0; i < states.size(); ++i) {
    finds += std::to_string(i + 1) + ") state=\"JobState=" + states[i] + " Restarts=0 \" ;; ";
  }
  script.replace(script.find(asks), asks.size(), finds + "*) exit 99 ;; esac");
  script.insert(0, "exec 3>&1; look=0; sleep() { :; }\n");
  setenv("SCRIPT", script.c_str(), 1);
  FILE* shell = popen("exec sh -c \"$SCRIPT\"", "r");
  int last = 0, looks = 0;
  while (fscanf(shell, "%d", &last) == 1) ++looks;
  return pclose(shell) == 0 ? looks : -1;
}

TEST(Bricks, DoNotWaitForEverForASuspendedBase) {
  const std::string runs = "RUNNING", away = "SUSPENDED";
  EXPECT_EQ(looks_until_end({runs, away, away, away, away, away}), 5);
  EXPECT_EQ(looks_until_end({away, away, away, runs, away, away, away}), -1);
  EXPECT_EQ(looks_until_end({runs, "COMPLETED"}), 2);
}

}  // namespace
}  // namespace bellows::scheduler
