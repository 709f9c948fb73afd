// SPDX-License-Identifier: Apache-2.0
// The control socket as a file: who may reach it, whose place it may take, when it goes.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>

#include "scheduler/command/control_client.h"
#include "scheduler/command/jobs.h"
#include "tests/unit/control_fixture.h"

namespace bellows::test {
namespace {

using testing::HasSubstr;
using Reply = ControlServer::Reply;

void ok(const Message&, const Reply& reply) { reply(done("ok")); }

mode_t mode_of(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

// Why no server can be made; "" when one can.
std::string refusal(const std::string& job = "1") {
  try {
    const Launcher launcher(job, ok);
    return "";
  } catch (const std::runtime_error& refused) {
    return refused.what();
  }
}

// What a launcher leaves that was killed.
void leave_dead_socket(const std::string& path) {
  const protocol::Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = protocol::unix_address(path);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(fd.get(), 1), 0);
}

std::vector<std::string> job_names() {
  std::vector<std::string> names;
  for (const scheduler::Job& job : scheduler::running_jobs()) names.push_back(job.name);
  return names;
}

TEST_F(ControlTest, FolderAndSocketAreTheUsersAlone) {
  fs::remove(folder());
  const mode_t before = umask(0);
  {
    const Launcher launcher("1", ok);
    EXPECT_EQ(mode_of(folder()), 0700U);
    EXPECT_EQ(mode_of(launcher.path()), 0600U);
  }
  umask(0777);
  {
    EXPECT_EQ(mode_of(Launcher("1", ok).path()), 0600U);
  }
  umask(before);
}

TEST_F(ControlTest, TheSocketGoesWithTheServer) {
  {
    const Launcher launcher("1", ok);
    EXPECT_TRUE(fs::exists(socket_of("1")));
  }
  EXPECT_TRUE(fs::is_empty(folder()));
}

TEST_F(ControlTest, AnotherLaunchersSocketIsLeftAlone) {
  std::optional<Launcher> first(std::in_place, "1", ok);
  fs::remove(socket_of("1"));  // by the user
  const Launcher second("1", ok);
  first.reset();
  EXPECT_TRUE(fs::exists(socket_of("1")));
  EXPECT_TRUE(protocol::is_listening(second.path()));
}

TEST_F(ControlTest, ADeadSocketIsReplacedALiveOneIsNot) {
  leave_dead_socket(socket_of("1"));
  EXPECT_FALSE(protocol::is_listening(socket_of("1")));
  const Launcher launcher("1", ok);
  EXPECT_TRUE(protocol::is_listening(socket_of("1")));
  EXPECT_EQ(refusal("1"), "job 1 already has a bellows-run, which listens at " + socket_of("1"));
  EXPECT_TRUE(protocol::is_listening(socket_of("1")));
  EXPECT_EQ(refusal("1.20"), "");
}

TEST_F(ControlTest, OfManyThatReplaceADeadSocketOneWins) {
  for (int round = 0; round < 20; ++round) {
    leave_dead_socket(socket_of("1"));
    std::vector<std::future<std::unique_ptr<Launcher>>> tries;
    for (int i = 0; i < 6; ++i) {
      tries.push_back(std::async(std::launch::async, [] {
        try {
          return std::make_unique<Launcher>("1", ok);
        } catch (const std::runtime_error&) {
          return std::unique_ptr<Launcher>();
        }
      }));
    }
    std::vector<std::unique_ptr<Launcher>> winners;
    for (auto& one : tries) {
      if (auto launcher = one.get()) winners.push_back(std::move(launcher));
    }
    EXPECT_EQ(winners.size(), 1U);
    EXPECT_TRUE(protocol::is_listening(socket_of("1")));
  }
}

TEST_F(ControlTest, OnlyASocketIsReplaced) {
  std::ofstream(socket_of("1")) << "precious";
  EXPECT_THAT(refusal(), HasSubstr("is in the way and is no socket"));
  EXPECT_TRUE(fs::exists(socket_of("1")));
  fs::remove(socket_of("1"));
  fs::create_symlink("/nowhere", socket_of("1"));
  EXPECT_THAT(refusal(), HasSubstr("is in the way and is no socket"));
}

TEST_F(ControlTest, AFolderThatIsALinkIsRefused) {
  const std::string link = folder() + "-link";
  fs::create_symlink(folder(), link);
  for (const std::string ending : {"", "/", "//"}) {
    setenv("BELLOWS_CONTROL_DIR", (link + ending).c_str(), 1);
    EXPECT_THAT(refusal(), HasSubstr(link + ", is a link")) << ending;
    EXPECT_THROW(scheduler::running_jobs(), std::runtime_error);
  }
  fs::remove(link);
}

TEST_F(ControlTest, AFolderThatOthersMayEnterIsRefused) {
  for (const mode_t mode : {0755U, 0701U, 0710U, 0777U}) {
    chmod(folder().c_str(), mode);
    EXPECT_THAT(refusal(), HasSubstr("is open to other users (mode 7")) << mode;
  }
}

TEST_F(ControlTest, AnotherUsersFolderIsRefused) {
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder().c_str(), 12345, 12345), 0);
    EXPECT_THAT(refusal(), HasSubstr("belongs to user 12345, not to user 0"));
  } else {
    setenv("BELLOWS_CONTROL_DIR", "/usr", 1);
    EXPECT_THAT(refusal(), HasSubstr("belongs to user 0"));
  }
  EXPECT_THROW(scheduler::running_jobs(), std::runtime_error);
}

TEST_F(ControlTest, WhatIsNoFolderIsRefused) {
  std::ofstream(folder() + "/file") << "x";
  setenv("BELLOWS_CONTROL_DIR", (folder() + "/file").c_str(), 1);
  EXPECT_THAT(refusal(), HasSubstr("is not a folder"));
  setenv("BELLOWS_CONTROL_DIR", (folder() + "/a/b").c_str(), 1);
  EXPECT_THAT(refusal(), HasSubstr("cannot make"));
  setenv("BELLOWS_CONTROL_DIR", "relative", 1);
  EXPECT_THAT(refusal(), HasSubstr("is no absolute path"));
  setenv("BELLOWS_CONTROL_DIR", (folder() + "/" + std::string(120, 'x')).c_str(), 1);
  EXPECT_THAT(refusal(), HasSubstr("a socket's path has 1 to 107 bytes"));
}

TEST_F(ControlTest, WithoutTheVariableTheFolderIsInTmp) {
  unsetenv("BELLOWS_CONTROL_DIR");
  EXPECT_EQ(protocol::control_folder(), "/tmp/bellows-ctl-" + std::to_string(geteuid()));
  setenv("BELLOWS_CONTROL_DIR", "", 1);
  EXPECT_EQ(protocol::control_folder(), "/tmp/bellows-ctl-" + std::to_string(geteuid()));
}

TEST_F(ControlTest, AJobsNameIsNoPath) {
  for (const char* name : {"", ".", "..", "../x", "a/b", "-x", ".x", "a b", "a\n"}) {
    EXPECT_THAT(refusal(name), HasSubstr("is no name of a job")) << name;
  }
  EXPECT_THAT(refusal(std::string(65, 'x')), HasSubstr("is no name of a job"));
  for (const char* name : {"4711", "4711.80", "local-12", "a_b"}) EXPECT_EQ(refusal(name), "");
}

// Another user comes in only if the owner opened folder and socket; then the kernel tells who it
// is.
TEST_F(ControlTest, AnotherUsersRequestIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Launcher launcher("1", [](const Message&, const Reply&) { ADD_FAILURE(); });
  chmod(folder().c_str(), 0755);
  chmod(launcher.path().c_str(), 0666);
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(12345, 12345, 12345) != 0) _exit(2);
    RawClient client(launcher.path());
    client.send(protocol::encode(request("status")));
    const auto answer = client.receive();
    const bool told = answer && answer->text("reason") == "only the job's owner and root may ask";
    // Its own client does not trust root's socket either.
    try {
      scheduler::ControlClient(launcher.path()).ask(Message("status"), kPlenty);
    } catch (const scheduler::NoAnswer& wary) {
      const bool right =
          std::string(wary.what()).find("is user 0's, not yours") != std::string::npos;
      _exit(told && right ? 0 : 3);
    }
    _exit(4);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(ControlTest, ChildrenDoNotInheritTheSocket) {
  std::optional<Launcher> launcher(std::in_place, "1", ok);
  const RawClient client(launcher->path());
  EXPECT_EQ(scheduler::ControlClient(launcher->path()).ask(Message("x"), kPlenty).type(), "done");
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (!fs::read_symlink(entry.path(), gone).string().starts_with("socket:")) continue;
    const int fd = std::stoi(entry.path().filename());
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
  }
}

// ---- which jobs there are -----------------------------------------------------------------------

TEST_F(ControlTest, JobsThatAnswerAreListed) {
  EXPECT_THAT(job_names(), testing::IsEmpty());
  const Launcher b("local-7", ok), a("4711", ok);
  leave_dead_socket(socket_of("dead"));
  std::ofstream(socket_of("file")) << "x";
  std::ofstream(folder() + "/other") << "x";
  EXPECT_THAT(job_names(), testing::ElementsAre("4711", "local-7"));
  fs::remove_all(folder());
  EXPECT_THAT(job_names(), testing::IsEmpty());
}

TEST_F(ControlTest, TheJobIsFound) {
  const auto name_of = [](const std::optional<std::string>& wanted) -> std::string {
    try {
      return scheduler::find_job(wanted).name;
    } catch (const std::runtime_error& none) {
      return none.what();
    }
  };
  EXPECT_THAT(name_of({}), HasSubstr("no bellows-run of yours was started on"));
  const Launcher one("4711", ok);
  EXPECT_EQ(name_of({}), "4711");
  const Launcher two("4712.5", ok);
  EXPECT_EQ(name_of({}), "there are several jobs: choose one with --job (4711, 4712.5)");
  EXPECT_EQ(name_of("4711"), "4711");
  EXPECT_EQ(name_of("4712"), "4712.5");
  EXPECT_THAT(name_of("47"), HasSubstr("(there is 4711, 4712.5)"));
  setenv("SLURM_JOB_ID", "4712", 1);
  EXPECT_EQ(name_of({}), "4712.5");
  const Launcher three("4712.6", ok);
  EXPECT_THAT(name_of({}), HasSubstr("several launchers: choose one with --job (4712.5, 4712.6)"));
  setenv("SLURM_JOB_ID", "4713", 1);
  EXPECT_THAT(name_of({}), HasSubstr("no bellows-run of yours runs job 4713 on"));
}

}  // namespace
}  // namespace bellows::test
