// SPDX-License-Identifier: Apache-2.0
// Saving on a disk that fills up or fails, and by a writer that is killed, at every single step:
// what is under the name afterwards is always one whole checkpoint.
#include "tests/unit/checkpoint_faults.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "checkpoint/store.h"
#include "tests/unit/checkpoint_fixture.h"

namespace bellows::checkpoint {
namespace {

class CheckpointFaultsTest : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    write(path("a.h5"), old_, 1);
    faults::arm({});
    write(path("b.h5"), new_, 2);
    calls_ = faults::disarm();
    std::filesystem::remove(path("b.h5"));
  }

  // The old or the new content is there, whole; gives its step.
  std::int64_t expect_whole(const std::filesystem::path& file) const {
    const Contents contents = read(file);
    expect_equal(contents.state, contents.info.step == 1 ? old_ : new_);
    return contents.info.step;
  }

  // The number of the call, from 1.
  int number_of(const std::string& name, bool last = false) const {
    const auto found = std::ranges::find(calls_, name);
    const auto found_last = std::find(calls_.rbegin(), calls_.rend(), name);
    return last ? static_cast<int>(calls_.rend() - found_last)
                : static_cast<int>(found - calls_.begin()) + 1;
  }

  State old_ = rich_state(1);
  State new_ = rich_state(2);
  std::vector<std::string> calls_;  // of one undisturbed save
};

TEST_F(CheckpointFaultsTest, DataReachTheDiskBeforeTheNameAndTheNameBeforeSuccess) {
  const int rename = number_of("rename");
  const auto is_sync = [](const std::string& name) { return name == "fsync"; };
  const auto before_rename = calls_.begin() + rename - 1;
  const auto sync = std::find_if(std::make_reverse_iterator(before_rename), calls_.rend(), is_sync);
  ASSERT_NE(sync, calls_.rend());
  const int last_sync = static_cast<int>(calls_.rend() - sync);
  EXPECT_LT(number_of("pwrite", true), last_sync);
  EXPECT_LT(number_of("ftruncate", true), last_sync);
  EXPECT_LT(last_sync, rename);
  EXPECT_LT(rename, number_of("fsync", true));
}

TEST_F(CheckpointFaultsTest, NoSpaceAtAnyCall) {
  const int rename = number_of("rename");
  int failures = 0;
  for (const bool and_after : {false, true}) {
    for (int i = 1; i <= static_cast<int>(calls_.size()); ++i) {
      testing::internal::CaptureStderr();
      faults::arm({.at = i, .and_after = and_after});
      const auto error = error_of([&] { write(path("a.h5"), new_, 2); });
      faults::disarm();
      EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
      EXPECT_EQ(names(), std::vector<std::string>{"a.h5"}) << "call " << i;
      const std::int64_t step = expect_whole(path("a.h5"));
      if (i <= rename) {
        ASSERT_TRUE(error) << "call " << i << " " << calls_[static_cast<std::size_t>(i) - 1];
        EXPECT_EQ(error->reason(), Reason::kNoSpace) << error->what();
        EXPECT_NE(error->advice(), "");
        EXPECT_EQ(step, 1);
        ++failures;
      } else {
        EXPECT_EQ(step, 2);
        write(path("a.h5"), old_, 1);
      }
    }
  }
  EXPECT_GT(failures, 10);
}

TEST_F(CheckpointFaultsTest, OtherErrorsOfTheDiskAreNamed) {
  faults::arm({.at = number_of("pwrite"), .code = EIO});
  const auto error = error_of([&] { write(path("a.h5"), new_, 2); });
  faults::disarm();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->reason(), Reason::kIo);
  EXPECT_NE(std::string(error->what()).find("Input/output error"), std::string::npos);
}

TEST_F(CheckpointFaultsTest, FileSystemsThatCannotReserveWork) {
  faults::arm({.at = number_of("fallocate"), .code = EOPNOTSUPP});
  write(path("a.h5"), new_, 2);
  faults::disarm();
  EXPECT_EQ(expect_whole(path("a.h5")), 2);
}

TEST_F(CheckpointFaultsTest, PartialAndInterruptedWritesAreContinued) {
  faults::arm({.short_writes = true});
  write(path("a.h5"), new_, 2);
  faults::disarm();
  EXPECT_EQ(expect_whole(path("a.h5")), 2);
}

TEST_F(CheckpointFaultsTest, FileSizeLimitIsAnErrorNotASignal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto size = std::filesystem::file_size(path("a.h5"));
  for (rlim_t limit = 0; limit < size; limit += size / 40) {
    const rlimit small{limit, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto error = error_of([&] { write(path("a.h5"), new_, 2); });
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_TRUE(error) << limit;
    EXPECT_EQ(error->reason(), Reason::kNoSpace) << error->what();
    EXPECT_EQ(names(), std::vector<std::string>{"a.h5"});
    EXPECT_EQ(expect_whole(path("a.h5")), 1);
  }
  sigset_t pending;
  ::sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGXFSZ), 0);
}

// Runs `body` in a child process; gives its wait status.
int in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(CheckpointFaultsTest, AWriterKilledAtAnyCallLeavesOneWholeCheckpoint) {
  Store store(path("run"), {.keep = 2});
  store.save(old_, 1);
  int temporaries = 0;
  for (int i = 1; i <= static_cast<int>(calls_.size()); ++i) {
    const int status = in_child([&] {
      faults::arm({.at = i, .kill = true});
      write(store.file_of(1), new_, 2);
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "call " << i;
    const std::int64_t step = expect_whole(store.file_of(1));
    EXPECT_EQ(step, i <= number_of("rename") ? 1 : 2);
    temporaries += store.clean();
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("run")), {}), 1);
    if (step == 2) write(store.file_of(1), old_, 1);
  }
  EXPECT_EQ(temporaries, number_of("rename"));
}

TEST_F(CheckpointFaultsTest, AWriterKilledAtAnyTimeLeavesWholeCheckpoints) {
  std::mt19937_64 random(5);
  State large = new_;
  large.set("parameters/large", random_tensor(Element::f32, {1 << 20}, random));
  const Store::Options options{.keep = 2};
  Store(path("run"), options).save(old_, 1);
  for (int i = 0; i < 40; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      Store store(path("run"), options);
      for (std::int64_t step = 2;; ++step) store.save(large, step);
    }
    ::usleep(static_cast<useconds_t>(random() % 40000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto newest = Store(path("run")).newest_good([](const Error& refused) {
      ADD_FAILURE() << refused.what();
    });
    ASSERT_TRUE(newest);
    expect_equal(newest->state, newest->info.step == 1 ? old_ : large);
  }
  Store(path("run")).clean();
  for (const auto& entry : std::filesystem::directory_iterator(path("run")))
    EXPECT_EQ(entry.path().extension(), ".h5") << entry.path();
}

TEST_F(CheckpointFaultsTest, FoldersThatCannotBeWrittenTo) {
  auto error = error_of([&] { write(path("missing/a.h5"), new_, 2); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->reason(), Reason::kIo);
  EXPECT_EQ(error->file(), path("missing/a.h5"));

  error = error_of([&] { Store(path("a.h5")).save(new_, 2); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->reason(), Reason::kIo);
  EXPECT_EQ(expect_whole(path("a.h5")), 1);

  std::filesystem::create_directory(path("folder.h5"));
  error = error_of([&] { write(path("folder.h5"), new_, 2); });
  ASSERT_TRUE(error);
  EXPECT_NE(error->detail().find("not a regular file"), std::string::npos);
  std::filesystem::remove(path("folder.h5"));

  using std::filesystem::perms;
  std::filesystem::permissions(
      folder_, perms::owner_read | perms::owner_exec | perms::others_read | perms::others_exec);
  const int status = in_child([&] {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    const auto refused = error_of([&] { write(path("a.h5"), new_, 2); });
    ::_exit(refused && refused->reason() == Reason::kIo &&
                    refused->advice().find("permissions") != std::string::npos
                ? 0
                : 2);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(expect_whole(path("a.h5")), 1);
  EXPECT_EQ(names(), std::vector<std::string>{"a.h5"});
}

}  // namespace
}  // namespace bellows::checkpoint
