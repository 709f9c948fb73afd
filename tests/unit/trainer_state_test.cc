// SPDX-License-Identifier: Apache-2.0
// The state of a training between worlds: as bytes, in a file, after a failed step; who sends it to
// whom; what ranks know together; which samples were used.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "tests/unit/trainer_fake_dataset.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/data/sample_record.h"
#include "trainer/errors.h"
#include "trainer/state/course.h"
#include "trainer/state/flat_state.h"
#include "trainer/state/saved_image.h"
#include "trainer/state/state_transfer.h"
#include "trainer/step/batch.h"
#include "trainer/step/logical_ranks.h"

namespace bellows::trainer {
namespace {

// With batch statistics: floats and integers among the buffers.
const SampleShape kColour{{3, 8, 8}, false, 4};

Options resnet_options(const std::string& optimizer = "adam") {
  Options o;
  o.model = "resnet18";
  o.norm = "batch";
  o.width = 4;
  o.optimizer = optimizer;
  return o;
}

void forward(TrainingState& state, const Dataset& data) {
  const std::vector<std::uint64_t> ids{1, 2, 3, 4, 5};
  state.model->draw_for({1, 0, ids});
  for (const auto& [name, p] : state.parameters) p.mutable_grad().reset();
  run_forward(*state.model, read_batch(data, Split::kTrain, ids, torch::kCPU)).loss.backward();
  torch::randn({7});
}

void train(TrainingState& state, const Dataset& data, int steps) {
  for (int i = 0; i < steps; ++i) {
    state.begin_step();
    forward(state, data);
    state.optimizer->step(0.01);
    ++state.step;
    state.samples += 5;
    state.pass_sums.add({0.25, 3, 5});
    state.sampler.advance(state.sampler.next(5));
    state.update_buffers();
  }
}

std::vector<std::byte> bytes_of(TrainingState& state) {
  const FlatState flat(state);
  std::vector<std::byte> bytes(flat.size());
  flat.read(0, bytes);
  return bytes;
}

// ---- failed steps -------------------------------------------------------------------------------

TEST(StateTest, AStepThatFailsLeavesNothingBehind) {
  const FakeDataset data(kColour);
  TrainingState state(resnet_options(), data, torch::kCPU);
  train(state, data, 3);
  const auto before = bytes_of(state);
  const torch::Tensor live = state.model_buffers()[0].clone();
  state.begin_step();
  forward(state, data);
  EXPECT_FALSE(torch::equal(state.model_buffers()[0], live)) << "the statistics move";
  EXPECT_EQ(bytes_of(state), before);
  // What follows is as if it had never been tried.
  TrainingState other(resnet_options(), data, torch::kCPU);
  other.begin_step();
  train(other, data, 3);
  train(state, data, 2);
  train(other, data, 2);
  EXPECT_EQ(other.common_hash(), state.common_hash());
  for (std::size_t i = 0; i < state.buffers.size(); ++i)
    EXPECT_TRUE(torch::equal(state.buffers[i].second, other.buffers[i].second));
}

// ---- bytes --------------------------------------------------------------------------------------

TEST(FlatStateTest, CarriesAllOfTheStateInPiecesOfAnySize) {
  const FakeDataset data(kColour);
  for (const char* optimizer : {"sgd", "adam"}) {
    TrainingState state(resnet_options(optimizer), data, torch::kCPU);
    train(state, data, 4);
    std::mt19937 random(7);
    TrainingState other(resnet_options(optimizer), data, torch::kCPU);
    const FlatState from(state);
    FlatState to(other);
    ASSERT_EQ(from.size(), to.size());
    ASSERT_LT(from.head(), from.size());
    for (std::size_t at = 0; at < from.size();) {
      const std::size_t count = std::min<std::size_t>(1 + random() % 9000, from.size() - at);
      std::vector<std::byte> piece(count);
      from.read(at, piece);
      to.write(at, piece);
      at += count;
    }
    to.finish();
    EXPECT_EQ(other.counters(), state.counters());
    EXPECT_EQ(bytes_of(other), bytes_of(state));
    train(state, data, 2);
    train(other, data, 2);
    EXPECT_EQ(bytes_of(other), bytes_of(state));
  }
}

TEST(FlatStateTest, TheHeadEndsBeforeTheParameters) {
  const FakeDataset data(kColour);
  TrainingState state(resnet_options(), data, torch::kCPU);
  const FlatState flat(state);
  std::vector<std::byte> bytes(4);
  flat.read(flat.head(), bytes);
  EXPECT_EQ(std::memcmp(bytes.data(), state.parameters[0].second.const_data_ptr(), 4), 0);
}

// ---- files --------------------------------------------------------------------------------------

class ImageTest : public testing::Test {
 protected:
  ~ImageTest() override { close(file_); }
  const FakeDataset data_{kColour};
  int file_ = memfd_create("image", 0);
};

TEST_F(ImageTest, BringsBackStateAndCourse) {
  TrainingState state(resnet_options(), data_, torch::kCPU);
  train(state, data_, 3);
  state.complete = true;
  Course course;
  course.begun = true;
  course.saved_step = 2;
  course.started -= std::chrono::seconds(100);
  write_image(file_, &state, course);

  TrainingState other(resnet_options(), data_, torch::kCPU);
  Course again;
  ASSERT_TRUE(read_image(file_, other, again));
  EXPECT_TRUE(other.complete);
  EXPECT_EQ(bytes_of(other), bytes_of(state));
  EXPECT_TRUE(again.begun);
  EXPECT_EQ(again.saved_step, 2);
  EXPECT_GE(Course::Clock::now() - again.started, std::chrono::seconds(100));
}

// The state is on its way for a while between the note and its taking.
TEST(CourseTest, ClocksOfANoteEndWhenItWasMade) {
  Course course;
  course.worked -= std::chrono::seconds(100);
  const auto noted = Course::Clock::now();
  const Course::Note note = course.note();
  Course other;
  other.take(note, noted - std::chrono::seconds(10));
  EXPECT_LE(other.worked, noted - std::chrono::seconds(109));
  EXPECT_GE(other.worked, noted - std::chrono::seconds(120));
}

TEST_F(ImageTest, OfAnIncompleteStateOrNoneHasNone) {
  TrainingState state(resnet_options(), data_, torch::kCPU);
  TrainingState other(resnet_options(), data_, torch::kCPU);
  Course course;
  write_image(file_, &state, course);
  EXPECT_FALSE(read_image(file_, other, course));
  write_image(file_, nullptr, course);
  EXPECT_FALSE(read_image(file_, other, course));
  EXPECT_FALSE(other.complete);
}

TEST_F(ImageTest, IsRefusedWhenAByteIsMissingOrWrong) {
  TrainingState state(resnet_options(), data_, torch::kCPU);
  train(state, data_, 1);
  state.complete = true;
  write_image(file_, &state, {});
  const off_t size = lseek(file_, 0, SEEK_END);
  TrainingState other(resnet_options(), data_, torch::kCPU);
  const auto before = bytes_of(other);
  Course course;
  for (const off_t at : {off_t{0}, off_t{60}, size / 2, size - 1}) {
    unsigned char byte = 0;
    ASSERT_EQ(pread(file_, &byte, 1, at), 1);
    byte ^= 4;
    ASSERT_EQ(pwrite(file_, &byte, 1, at), 1);
    EXPECT_FALSE(read_image(file_, other, course)) << "byte " << at;
    byte ^= 4;
    ASSERT_EQ(pwrite(file_, &byte, 1, at), 1);
  }
  ASSERT_EQ(ftruncate(file_, size - 1), 0);
  EXPECT_FALSE(read_image(file_, other, course));
  EXPECT_EQ(bytes_of(other), before);
  EXPECT_FALSE(other.complete);
}

TEST_F(ImageTest, OfAnotherModelIsRefused) {
  TrainingState state(resnet_options("sgd"), data_, torch::kCPU);
  state.complete = true;
  write_image(file_, &state, {});
  TrainingState other(resnet_options("adam"), data_, torch::kCPU);
  Course course;
  EXPECT_FALSE(read_image(file_, other, course));
}

// ---- who sends to whom --------------------------------------------------------------------------

using Sources = std::vector<std::vector<int>>;

Sources plan(const std::vector<std::int64_t>& steps, const std::vector<std::uint64_t>& nodes) {
  return plan_transfer(steps, nodes);
}

TEST(TransferPlanTest, NobodyReceivesWhenAllAreAsFar) {
  EXPECT_EQ(plan({7, 7, 7}, {1, 1, 2}), Sources(3));
  EXPECT_EQ(plan({-1, -1}, {1, 1}), Sources(2)) << "there is nothing to send";
}

TEST(TransferPlanTest, TheFurthestOfTheNodeAreTakenFirst) {
  const Sources expected{{}, {0}, {}, {2}, {}};
  EXPECT_EQ(plan({8, 7, 8, -1, 8}, {1, 1, 2, 2, 3}), expected);
}

TEST(TransferPlanTest, WithoutOneOnTheNodeAllOfTheFurthestSendAPart) {
  const Sources expected{{}, {}, {0, 1}, {0, 1}};
  EXPECT_EQ(plan({0, 0, -1, -1}, {1, 2, 3, 3}), expected);
}

// ---- what ranks know together -------------------------------------------------------------------

TEST(CourseTest, WhatOneHasSeenDoneIsDone) {
  std::vector<Course::Note> notes(3);
  notes[0].evaluated_step = 5;
  notes[0].test = {1, 2, 3};
  notes[1].saved_step = 9;
  notes[2].told_step = 4;
  notes[1].started_ago = 70;
  notes[1].committed_epoch = 4;
  notes[2].ended = 1;
  notes[2].started_ago = 1;
  const Course::Note all = combine(notes, 1);
  EXPECT_EQ(all.evaluated_step, 5);
  EXPECT_EQ(all.test, (Sums{1, 2, 3}));
  EXPECT_EQ(all.told_step, 4);
  EXPECT_EQ(all.saved_step, 9);
  EXPECT_EQ(all.started_ago, 70) << "the leader's clock";
  EXPECT_EQ(all.committed_epoch, 4);
  EXPECT_EQ(all.ended, 1);
  EXPECT_EQ(all.stopping, 0);
}

// ---- logical ranks ------------------------------------------------------------------------------

TEST(LogicalRanksTest, TheSubtreesOfAllRanksMakeUpTheTree) {
  for (std::uint64_t parts = 1; parts <= 17; ++parts)
    for (int ranks = 1; ranks <= 19; ++ranks) {
      std::uint64_t at = 0;
      for (int rank = 0; rank < ranks; ++rank)
        for (const Range& tree : subtrees(parts, share({0, parts}, rank, ranks))) {
          EXPECT_EQ(tree.begin, at);
          at = tree.end;
        }
      EXPECT_EQ(at, parts);
    }
}

TEST(LogicalRanksTest, SubtreesAreNodesOfOneTree) {
  EXPECT_EQ(subtrees(8, {0, 8}), (std::vector<Range>{{0, 8}}));
  EXPECT_EQ(subtrees(8, {1, 7}), (std::vector<Range>{{1, 2}, {2, 4}, {4, 6}, {6, 7}}));
  EXPECT_EQ(subtrees(5, {3, 5}), (std::vector<Range>{{3, 5}}));
  EXPECT_EQ(subtrees(5, {2, 5}), (std::vector<Range>{{2, 3}, {3, 5}}));
  EXPECT_TRUE(subtrees(5, {2, 2}).empty());
}

// ---- samples ------------------------------------------------------------------------------------

class SampleRecordTest : public TrainerTest {
 protected:
  std::string written() const { return read("used." + std::to_string(getpid())); }
};

TEST_F(SampleRecordTest, HasOneLinePerStepThatWasKept) {
  SampleRecord record(path("used"));
  record.begin({1, 4, 0, {10, 14}, {8, 3}});
  record.commit(4, 1);
  record.begin({1, 5, 0, {14, 18}, {6}});  // fails
  record.begin({2, 5, 0, {14, 18}, {6, 9}});
  record.commit(5, 2);
  EXPECT_EQ(written(),
            "{\"epoch\":1,\"step\":4,\"pass\":0,\"batch\":[10,14],\"ids\":[8,3]}\n"
            "{\"epoch\":2,\"step\":5,\"pass\":0,\"batch\":[14,18],\"ids\":[6,9]}\n");
}

TEST_F(SampleRecordTest, AStepThatOthersMadeCountsOnlyInTheSameWorld) {
  SampleRecord record(path("used"));
  record.begin({3, 5, 0, {0, 4}, {1}});
  record.commit(4, 3);  // nobody has made it
  record.begin({3, 5, 0, {0, 4}, {1}});
  record.commit(5, 4);  // made without this rank
  EXPECT_EQ(written(), "");
  record.begin({3, 5, 0, {0, 4}, {1}});
  record.commit(5, 3);
  EXPECT_NE(written(), "");
}

TEST_F(SampleRecordTest, NamesAFileThatCannotBeWritten) {
  expect_error<UsageError>([] { SampleRecord("/none/used"); },
                           {"--record-samples /none/used.", "No such file"});
}

}  // namespace
}  // namespace bellows::trainer
