// SPDX-License-Identifier: Apache-2.0
// A folder of checkpoints: keeps the newest, finds the newest good one, tidies up after the dead.
#include <algorithm>

#include "checkpoint/disk.h"
#include "checkpoint/store.h"
#include "checkpoint/timestamp.h"
#include "tests/unit/checkpoint_fixture.h"

namespace bellows::checkpoint {
namespace {

class CheckpointStoreTest : public CheckpointTest {
 protected:
  static State state_of(std::int64_t step) {
    State state;
    state.set("progress/step", step);
    std::mt19937_64 random(static_cast<std::uint64_t>(step));
    state.set("parameters/w", random_tensor(Element::f32, {100}, random));
    return state;
  }
  static std::vector<std::int64_t> steps(const Store& store) {
    std::vector<std::int64_t> found;
    for (const auto& entry : store.list()) found.push_back(entry.info.step);
    return found;
  }
  // Strikes the middle: its seal stays whole, so only a full read finds it.
  static void damage(const std::filesystem::path& file) {
    std::string bytes = bytes_of(file);
    bytes[bytes.size() / 2] ^= 1;
    write_bytes(file, bytes);
  }
};

using Steps = std::vector<std::int64_t>;

TEST_F(CheckpointStoreTest, KeepsTheNewest) {
  Store store(path("deep/run"), {.keep = 3});
  EXPECT_TRUE(store.list().empty());
  EXPECT_FALSE(store.newest_good());
  for (std::int64_t step = 10; step <= 60; step += 10) store.save(state_of(step), step);
  EXPECT_EQ(steps(store), (Steps{60, 50, 40}));
  const auto newest = store.newest_good();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->info.step, 60);
  expect_equal(newest->state, state_of(60));
}

TEST_F(CheckpointStoreTest, KeepsAllWhenToldSo) {
  Store store(folder_, {.keep = 0});
  for (std::int64_t step = 1; step <= 6; ++step) store.save(state_of(step), step);
  EXPECT_EQ(store.list().size(), 6U);
}

TEST_F(CheckpointStoreTest, SavingAStepAgainReplacesIt) {
  Store store(folder_);
  store.save(state_of(1), 5);
  store.save(state_of(2), 5);
  EXPECT_EQ(store.list().size(), 1U);
  expect_equal(store.newest_good()->state, state_of(2));
}

TEST_F(CheckpointStoreTest, FallsBackToTheNextOlderAndSaysWhy) {
  Store store(folder_, {.keep = 4});
  for (std::int64_t step = 1; step <= 4; ++step) store.save(state_of(step), step);
  damage(store.file_of(4));
  const std::string third = bytes_of(store.file_of(3));
  write_bytes(store.file_of(3), third.substr(0, third.size() - 1));
  write_bytes(store.file_of(9), "something else");
  std::vector<std::pair<std::filesystem::path, Reason>> refused;
  const auto newest = store.newest_good(
      [&](const Error& error) { refused.emplace_back(error.file(), error.reason()); });
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->info.step, 2);
  std::ranges::sort(refused);
  ASSERT_EQ(refused.size(), 3U);
  EXPECT_EQ(refused[0], std::pair(store.file_of(3), Reason::kTruncated));
  EXPECT_EQ(refused[1], std::pair(store.file_of(4), Reason::kDamaged));
  EXPECT_EQ(refused[2], std::pair(store.file_of(9), Reason::kForeign));
}

TEST_F(CheckpointStoreTest, ReportsWhenNoneIsGood) {
  Store store(folder_);
  store.save(state_of(1), 1);
  damage(store.file_of(1));
  int refused = 0;
  EXPECT_FALSE(store.newest_good([&](const Error&) { ++refused; }));
  EXPECT_EQ(refused, 1);
}

TEST_F(CheckpointStoreTest, GoingBackToAnOlderStepMakesItTheNewest) {
  Store store(folder_, {.keep = 2});
  store.save(state_of(100), 100);
  store.save(state_of(200), 200);
  store.save(state_of(101), 101);
  EXPECT_EQ(steps(store), (Steps{101, 200}));
  EXPECT_EQ(store.newest_good()->info.step, 101);
}

TEST_F(CheckpointStoreTest, AClockThatWentBackDoesNotChangeTheOrder) {
  Store store(folder_, {.keep = 3});
  write(store.file_of(7), state_of(7), 7, "2998-12-31T23:59:59.999999Z");
  store.save(state_of(8), 8);
  store.save(state_of(6), 6);
  EXPECT_EQ(steps(store), (Steps{6, 8, 7}));
  EXPECT_EQ(store.list()[1].info.created, "2999-01-01T00:00:00.000000Z");
}

TEST_F(CheckpointStoreTest, TimesAreWrittenInOneWay) {
  EXPECT_EQ(timestamp(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(timestamp(-1), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(parse_timestamp("2026-02-28T23:59:60.000000Z"), std::nullopt);
  EXPECT_EQ(parse_timestamp("2026-02-28 23:59:59.000000Z"), std::nullopt);
  EXPECT_EQ(parse_timestamp(""), std::nullopt);
  EXPECT_EQ(parse_timestamp("2001-09-09T01:46:40.000007Z"), 1000000000000007);
  EXPECT_THROW(write(path("a.h5"), State(), 1, "yesterday"), std::invalid_argument);
}

// A file that is damaged counts for nothing: the last good one stays.
TEST_F(CheckpointStoreTest, NeverRemovesTheLastGoodOneForABadOne) {
  Store store(folder_, {.keep = 2});
  store.save(state_of(1), 1);
  store.save(state_of(2), 2);
  write_bytes(store.file_of(3), bytes_of(store.file_of(2)).substr(0, 600));
  write_bytes(path("checkpoint-notes.h5"), "not ours");
  write_bytes(path("notes.txt"), "not ours either");
  store.save(state_of(4), 4);
  EXPECT_EQ(steps(store), (Steps{4, 2}));
  EXPECT_TRUE(std::filesystem::exists(store.file_of(3)));
  EXPECT_TRUE(std::filesystem::exists(path("checkpoint-notes.h5")));
  EXPECT_TRUE(std::filesystem::exists(path("notes.txt")));
}

TEST_F(CheckpointStoreTest, TemporaryFilesOfTheLivingStay) {
  Store store(folder_);
  {
    const OutputFile living(store.file_of(5));
    EXPECT_EQ(store.clean(), 0);
    EXPECT_TRUE(std::filesystem::exists(living.temporary()));
    store.save(state_of(1), 1);
    EXPECT_TRUE(std::filesystem::exists(living.temporary()));
    EXPECT_EQ(store.list().size(), 1U);
  }
  EXPECT_EQ(names(), std::vector<std::string>{"checkpoint-000000000001.h5"});
}

TEST_F(CheckpointStoreTest, TemporaryFilesOfTheDeadGoAndNothingElse) {
  std::string dead;
  {
    const OutputFile output(path("checkpoint-000000000005.h5"));
    dead = output.temporary().filename().string();
  }
  const std::string elsewhere = ".checkpoint-1.h5.other-node.77.0123456789abcdef.tmp";
  const std::vector<std::string> others{".checkpoint-1.h5.tmp", ".checkpoint-notes.tmp", elsewhere,
                                        ".other.h5.node.1.0123456789abcdef.tmp"};
  for (const std::string& name : others) write_bytes(path(name), "x");
  write_bytes(path(dead), "half a checkpo");
  Store store(folder_);
  EXPECT_EQ(store.clean(), 1);
  EXPECT_FALSE(std::filesystem::exists(path(dead)));
  for (const std::string& name : others) EXPECT_TRUE(std::filesystem::exists(path(name))) << name;
  // Of another node, whose locks may not be visible here: only when nobody touched it for long.
  std::filesystem::last_write_time(
      path(elsewhere), std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(store.clean(), 1);
  EXPECT_FALSE(std::filesystem::exists(path(elsewhere)));
}

}  // namespace
}  // namespace bellows::checkpoint
