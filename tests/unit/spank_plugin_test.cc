// SPDX-License-Identifier: Apache-2.0
// The plugin's arguments, and the cleaning after a job: all of it goes, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "spank_plugin/arguments.h"
#include "spank_plugin/leftovers.h"

namespace bellows::spank {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

template <typename... Words>
Arguments parse(Words... words) {
  return parse_arguments({words...});
}

template <typename... Words>
std::string refusal(Words... words) {
  try {
    parse_arguments({words...});
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SpankArguments, AllHaveDefaults) {
  const Arguments arguments = parse_arguments({});
  EXPECT_TRUE(arguments.cleanup);
  EXPECT_THAT(arguments.folders, testing::ElementsAre("/tmp", "/dev/shm"));
}

TEST(SpankArguments, AreParsed) {
  const Arguments arguments = parse("cleanup=no", "folders=/a:/b/c", "cleanup_seconds=7");
  EXPECT_FALSE(arguments.cleanup);
  EXPECT_THAT(arguments.folders, testing::ElementsAre("/a", "/b/c"));
  EXPECT_EQ(arguments.cleanup_seconds, 7);
}

TEST(SpankArguments, OfElasticJobs) {
  const Arguments defaults = parse_arguments({});
  EXPECT_EQ(defaults.mode, "manual");
  EXPECT_EQ(defaults.bellows, "");
  EXPECT_FALSE(defaults.grace);
  EXPECT_EQ(defaults.max_nodes, kMostNodes);
  const Arguments arguments = parse("bellows=/opt/bin/bellows", "mode=turbo", "grace=30",
                                    "max_nodes=64", "partition_max=gpu:8,spot:32");
  EXPECT_EQ(arguments.bellows, "/opt/bin/bellows");
  EXPECT_EQ(arguments.mode, "turbo");
  EXPECT_EQ(arguments.grace, 30);
  EXPECT_EQ(arguments.max_nodes, 64);
  EXPECT_THAT(arguments.partition_max,
              testing::ElementsAre(testing::Pair("gpu", 8), testing::Pair("spot", 32)));
}

TEST(SpankArguments, UnknownOnesAreNamedWithTheKnownOnes) {
  EXPECT_THAT(refusal("clean=yes"), HasSubstr("unknown argument 'clean=yes' (known: cleanup,"));
  EXPECT_THAT(refusal(""), HasSubstr("unknown argument ''"));
}

TEST(SpankArguments, BadValuesAreNamedWithTheGoodOnes) {
  EXPECT_THAT(refusal("cleanup=maybe"), HasSubstr("'cleanup=maybe': use cleanup=yes|no"));
  for (const char* word : {"cleanup",
                           "cleanup=",
                           "folders=",
                           "folders=tmp",
                           "folders=/a:b",
                           "folders=/a::/b",
                           "cleanup_seconds=0",
                           "cleanup_seconds=5x",
                           "cleanup_seconds=99999999999999999999",
                           "bellows=bellows",
                           "bellows=",
                           "mode=fast",
                           "grace=-1",
                           "max_nodes=0",
                           "partition_max=",
                           "partition_max=gpu",
                           "partition_max=:3",
                           "partition_max=gpu:0",
                           "partition_max=gpu:1,",
                           "partition_max=gpu:1,gpu:2",
                           "partition_max=gpu:1,,spot:2"})
    EXPECT_THAT(refusal(word), HasSubstr("use ")) << word;
}

TEST(SpankArguments, HelpHasEveryOne) {
  for (const char* name : {"cleanup=", "folders=", "cleanup_seconds=", "bellows=", "mode=",
                           "grace=", "max_nodes=", "partition_max="})
    EXPECT_THAT(arguments_help(), HasSubstr(name));
}

/// A folder as /tmp is, and jobs' folders in it that belong to `owner_`.
class Leftovers : public testing::Test {
 protected:
  Leftovers() {
    char name[] = "/tmp/leftovers-XXXXXX";
    top_ = mkdtemp(name);
    fs::permissions(top_, fs::perms::all | fs::perms::sticky_bit);
  }
  ~Leftovers() override { fs::remove_all(top_); }

  fs::path folder(const std::string& name) {
    fs::create_directories(top_ / name);
    own(top_ / name);
    return top_ / name;
  }
  void file(const fs::path& path) {
    std::ofstream(path) << "content";
    own(path);
  }
  void own(const fs::path& path) { ASSERT_EQ(lchown(path.c_str(), job_.uid, job_.gid), 0); }
  std::string name(const std::string& job, const std::string& rest = "Ab12Cd") const {
    return "bellows-" + std::to_string(job_.uid) + "-" + job + "-" + rest;
  }
  Removal remove() { return remove_leftovers(job_, {top_, "/no/such/folder"}, 20); }

  // As root, the job's owner is somebody else.
  const EndedJob job_{geteuid() == 0 ? 5000 : geteuid(), geteuid() == 0 ? 5000 : getegid(), 12};
  fs::path top_;
};

TEST_F(Leftovers, OfTheJobGoWithAllThatIsInThem) {
  const fs::path left = folder(name("12"));
  folder(name("12") + "/a/b/c");
  for (fs::path p = left / "a/b/c"; p != left; p = p.parent_path()) own(p);
  file(left / "a/b/c/file");
  file(left / ".hidden");
  folder(name("12", "zz"));
  const Removal removal = remove();
  EXPECT_EQ(removal.problems, "");
  EXPECT_EQ(removal.removed, 2);
  EXPECT_TRUE(fs::is_empty(top_));
}

TEST_F(Leftovers, OfOtherJobsAndUsersStay) {
  folder(name("123"));
  folder(name("1"));
  folder("bellows-" + std::to_string(job_.uid + 1) + "-12-Ab12Cd");
  folder(name("12", ""));
  folder("other");
  file(top_ / name("12", "file"));  // no folder, so not one of ours
  EXPECT_EQ(remove().removed, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(top_), {}), 6);
}

TEST_F(Leftovers, LinksAreRemovedButNotFollowed) {
  const fs::path precious = folder("precious");
  file(precious / "file");
  const fs::path left = folder(name("12"));
  fs::create_directory_symlink(precious, left / "link");
  fs::create_symlink(precious / "file", left / "file");
  fs::create_directory_symlink(precious, top_ / name("12", "link"));
  own(left / "link");
  own(left / "file");
  own(top_ / name("12", "link"));
  EXPECT_EQ(remove().removed, 1);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(precious / "file"));
}

TEST_F(Leftovers, WithoutPermissionsGoToo) {
  const fs::path left = folder(name("12"));
  const fs::path inner = folder(name("12") + "/inner");
  file(inner / "file");
  fs::permissions(inner, fs::perms::none);
  fs::permissions(left, fs::perms::none);
  EXPECT_EQ(remove().problems, "");
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(Leftovers, OfAnotherOwnerUnderTheJobsNameStay) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const fs::path left = folder(name("12"));
  ASSERT_EQ(chown(left.c_str(), 0, 0), 0);
  EXPECT_EQ(remove().removed, 0);
  EXPECT_TRUE(fs::exists(left));
}

TEST_F(Leftovers, AreRemovedWithTheOwnersRightsOnly) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const fs::path left = folder(name("12"));
  const fs::path inner = folder(name("12") + "/of-root");
  ASSERT_EQ(chown(inner.c_str(), 0, 0), 0);
  file(inner / "file");
  fs::permissions(inner, fs::perms::owner_all);
  const Removal removal = remove();
  EXPECT_THAT(removal.problems, HasSubstr("of-root: Permission denied"));
  EXPECT_TRUE(fs::exists(inner / "file"));
}

TEST_F(Leftovers, TooDeepToBeOursStay) {
  std::string path = name("12");
  fs::path at = folder(path);
  for (int i = 0; i < 70; ++i) {
    at /= "d";
    fs::create_directory(at);
    own(at);
  }
  EXPECT_THAT(remove().problems, HasSubstr("d: Too many levels"));
}

}  // namespace
}  // namespace bellows::spank
