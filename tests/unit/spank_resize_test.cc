// SPDX-License-Identifier: Apache-2.0
// A resize request: the program is found, gets what it needs and no more, and its end is passed on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "spank_plugin/resize_request.h"

namespace bellows::spank {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Resize : public testing::Test {
 protected:
  Resize() {
    char name[] = "/tmp/resize-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Resize() override { fs::remove_all(folder_); }

  /// A program of this text, in the folder.
  fs::path program(const std::string& text, const std::string& name = "bellows") {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  std::string said() const {
    std::ostringstream text;
    text << std::ifstream(folder_ / "said").rdbuf();
    return text.str();
  }

  fs::path folder_;
};

TEST_F(Resize, CommandNamesJobNodesAndTime) {
  EXPECT_THAT(command_of({"/p", 12, "n[1-4]", 30}),
              ElementsAre("/p", "resize", "--job=12", "--nodes=n[1-4]", "--wait=30"));
}

TEST_F(Resize, ExitCodesArePassedOn) {
  for (const int code : {0, 1, 2, 3, 77}) {
    const ResizeOutcome outcome =
        run_resize({program("exit " + std::to_string(code)), 12, "+1", 0});
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.problem, "");
  }
  EXPECT_EQ(run_resize({program("kill -TERM $$"), 12, "+1", 0}).code, 128 + SIGTERM);
}

TEST_F(Resize, ProgramSeesNoShellNoInputAndNoSignalsOfOurs) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const fs::path path = program("{ echo \"$3\"; grep SigBlk /proc/self/status; cat; } >" +
                                (folder_ / "said").string());
  EXPECT_EQ(run_resize({path, 12, "$(id);n1", 0}).code, 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(said(), "--nodes=$(id);n1\nSigBlk:\t0000000000000000\n");
}

TEST_F(Resize, AProgramThatIsNotThereIsNamed) {
  const ResizeOutcome outcome = run_resize({"/no/such/bellows", 12, "+1", 0});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.problem, HasSubstr("cannot start /no/such/bellows: No such file"));
}

TEST_F(Resize, TheProgramInstalledWithThePluginIsFound) {
  program("", "bin/bellows");
  fs::create_directories(folder_ / "lib/bellows");
  EXPECT_THAT(bellows_beside(folder_ / "lib/bellows/spank_bellows.so"),
              HasSubstr("/lib/bellows/../../bin/bellows"));
  EXPECT_THAT(bellows_beside(folder_ / "lib/spank_bellows.so"), HasSubstr("/lib/../bin/bellows"));
  EXPECT_EQ(bellows_beside("/no/such/folder/x.so"), "bellows");
  EXPECT_EQ(bellows_beside(""), "bellows");
}

}  // namespace
}  // namespace bellows::spank
