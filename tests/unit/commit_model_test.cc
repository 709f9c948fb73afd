// SPDX-License-Identifier: Apache-2.0
// The step commit, as a model: the protocol keeps every rank's state whole and the same, whatever
// the order of deaths, joins and leaves; and each of the mistakes that it avoids is found, so the
// search is one that can fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <ostream>
#include <stdexcept>
#include <string>

#include "tests/unit/commit_explorer.h"

namespace bellows::commit_model {

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.ranks << " ranks, " << s.buckets << " buckets, " << s.steps << " steps, "
             << s.deaths << " deaths, " << s.joiners << " joiners, " << s.leaves << " leaves";
}

namespace {

using testing::HasSubstr;

// ---- the protocol -------------------------------------------------------------------------------

class EveryOrder : public testing::TestWithParam<Shape> {};

TEST_P(EveryOrder, KeepsTheState) {
  const Findings found = explore(GetParam());
  EXPECT_EQ(found.fault, "");
  EXPECT_GT(found.ends, 0U);
  std::cout << GetParam() << ": " << found.states << " states, " << found.actions << " actions\n";
}

INSTANTIATE_TEST_SUITE_P(
    CommitModel, EveryOrder,
    testing::Values(Shape{.ranks = 2, .buckets = 3, .steps = 3, .deaths = 2},
                    Shape{.ranks = 3, .buckets = 3, .steps = 2, .deaths = 2},
                    Shape{.ranks = 4, .buckets = 2, .steps = 1, .deaths = 3},
                    Shape{.ranks = 2, .buckets = 2, .steps = 2, .deaths = 1, .joiners = 1},
                    Shape{.ranks = 3, .buckets = 2, .steps = 1, .deaths = 1, .joiners = 1},
                    Shape{.ranks = 3, .buckets = 2, .steps = 1, .deaths = 2, .leaves = 1},
                    Shape{.ranks = 1, .buckets = 1, .steps = 1, .joiners = 2, .leaves = 1},
                    Shape{.ranks = 2, .buckets = 1, .steps = 2, .joiners = 1, .leaves = 1}));

class ManyOrders : public testing::TestWithParam<Shape> {};

TEST_P(ManyOrders, KeepTheState) {
  const Findings found = sample(GetParam(), 1500, 1);
  EXPECT_EQ(found.fault, "");
  std::cout << GetParam() << ": " << found.actions << " actions in 1500 runs\n";
}

INSTANTIATE_TEST_SUITE_P(
    CommitModel, ManyOrders,
    testing::Values(
        Shape{.ranks = 5, .buckets = 3, .steps = 4, .deaths = 4},
        Shape{.ranks = 8, .buckets = 3, .steps = 3, .deaths = 7},
        Shape{.ranks = 8, .buckets = 1, .steps = 4, .deaths = 8},
        Shape{.ranks = 4, .buckets = 3, .steps = 4, .deaths = 5, .joiners = 4, .leaves = 3},
        Shape{.ranks = 1, .buckets = 2, .steps = 4, .deaths = 4, .joiners = 7, .leaves = 4}));

// ---- mistakes -----------------------------------------------------------------------------------

// Three ranks, of which one dies in the step and leaves the others apart.
Shape with_deaths(Rule rule) {
  return {.ranks = 3, .buckets = 2, .steps = 2, .deaths = 2, .rule = rule};
}

// What is wrong is found by trying all orders, and by chance with more ranks.
void expect_fault(const Shape& shape, const std::string& text) {
  EXPECT_THAT(explore(shape).fault, HasSubstr(text));
  Shape larger = shape;
  larger.ranks += 3;
  larger.deaths += 3;
  EXPECT_NE(sample(larger, 10000, 1).fault, "") << larger;
}

TEST(CommitMistakes, ToGoOnWithoutComparing) {
  expect_fault(with_deaths(Rule::kNobodyCompares),
               "applies step 1 with a share of rank 2 that is of step 2");
}

TEST(CommitMistakes, ToOverwriteTheStateInPlace) {
  expect_fault(with_deaths(Rule::kInPlace), "half of one step and half of another");
}

TEST(CommitMistakes, ToOverwriteAStateThatWasGivenUpFirst) {
  expect_fault(with_deaths(Rule::kInPlaceInvalidFirst),
               "the state is lost, and a rank that had it lives");
}

TEST(CommitMistakes, ToTakeTheControlWordForTheCommit) {
  expect_fault(with_deaths(Rule::kControlWordIsProof), "takes the content of step 0 for step 1");
}

TEST(CommitMistakes, ToTakeTheStateOfARankThatIsBehind) {
  expect_fault(with_deaths(Rule::kSourceIsLowest),
               "a member has committed step 1, and the epoch begins at 0");
}

TEST(CommitMistakes, ToLetTheLastHolderGo) {
  const Shape shape{
      .ranks = 1, .deaths = 0, .joiners = 1, .leaves = 1, .rule = Rule::kLeaveBeforeJoinersSet};
  EXPECT_THAT(explore(shape).fault, HasSubstr("nobody that had it has died"));
  EXPECT_EQ(explore({.ranks = 1, .deaths = 0, .joiners = 1, .leaves = 1}).fault, "");
}

TEST(CommitMistakes, ToLetALeaverGoBeforeTheOthersHaveAWorld) {
  const Shape shape{.ranks = 2, .deaths = 1, .leaves = 1, .rule = Rule::kLeaveBeforeOthersStand};
  EXPECT_THAT(explore(shape).fault, HasSubstr("has left before the others had a world"));
  EXPECT_EQ(explore({.ranks = 2, .deaths = 1, .leaves = 1}).fault, "");
}

// ---- the search itself --------------------------------------------------------------------------

TEST(CommitSearch, TellsHowItCameAbout) {
  const std::string story = explore(with_deaths(Rule::kInPlaceInvalidFirst)).fault;
  const std::size_t first = story.find("0 † 0  the launcher declares epoch 2: 0 2\n");
  const std::size_t then = story.find("0 † 1  rank 2 is inside epoch 2 and says step 1\n");
  EXPECT_NE(first, std::string::npos) << story;
  EXPECT_NE(then, std::string::npos) << story;
  EXPECT_LT(first, then);
}

TEST(CommitSearch, SaysWhenItCannotSeeAll) {
  EXPECT_THROW(explore({.ranks = 4, .buckets = 3, .steps = 3, .deaths = 3}, 10000),
               std::length_error);
}

TEST(CommitSearch, IsTheSameForTheSameSeed) {
  const Shape shape{.ranks = 5, .buckets = 2, .steps = 2, .deaths = 3};
  EXPECT_EQ(sample(shape, 50, 7).actions, sample(shape, 50, 7).actions);
  EXPECT_NE(sample(shape, 50, 7).actions, sample(shape, 50, 8).actions);
}

// A rank that is not told of a failure waits for ever: that is a fault as well.
TEST(CommitSearch, SeesARankThatWaits) {
  const Model model({.ranks = 1, .buckets = 1, .steps = 1, .deaths = 0});
  EXPECT_EQ(model.end_fault(model.first()), "rank 0 waits for ever");
}

}  // namespace
}  // namespace bellows::commit_model
