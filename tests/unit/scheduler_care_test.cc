// SPDX-License-Identifier: Apache-2.0
// What the broker does without being asked.
#include "tests/unit/scheduler_fixture.h"

namespace bellows::scheduler {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CareTest : public BrokerTest {
 protected:
  JobId brick() {
    cluster.settings.expansion = false;
    ask("+1");
    run.log.clear();
    return 2;
  }
};

TEST_F(CareTest, LeavesAQuietJobAlone) {
  ask("+1");
  cluster.log.clear();
  run.log.clear();
  look(20);
  EXPECT_THAT(cluster.log, IsEmpty());
  EXPECT_THAT(run.log, IsEmpty());
}

TEST_F(CareTest, TellsOfNodesThatSlurmHasTaken) {
  const JobId id = brick();
  cluster.end_job(id, "PREEMPTED");
  look(3);
  EXPECT_THAT(run.log, ElementsAre("taken n3"));
  ASSERT_EQ(run.events.size(), 1U);
  EXPECT_EQ(run.events[0].kind, "taken");
  EXPECT_THAT(run.events[0].nodes, ElementsAre("n3"));
}

TEST_F(CareTest, PutsWhatItHasDoneIntoTheEvents) {
  settings.mode = protocol::ElasticMode::turbo;
  look(3);
  ASSERT_EQ(run.events.size(), 1U);
  EXPECT_EQ(run.events[0].kind, "granted");
  EXPECT_THAT(run.events[0].nodes, ElementsAre("n3", "n4"));
  EXPECT_EQ(run.events[0].phases.at(0).first, "allocation");
  settings.mode = protocol::ElasticMode::manual;
  cluster.set_node("n4", NodeState::leaving);
  look(2);
  ASSERT_EQ(run.events.size(), 2U);
  EXPECT_EQ(run.events[1].kind, "returned");
  EXPECT_THAT(run.events[1].nodes, ElementsAre("n4"));
  EXPECT_THAT(run.events[1].text, HasSubstr("it drains"));
}

TEST_F(CareTest, LetsRanksLeaveAPreemptedBrick) {
  cluster.edit(brick()).preempted = time.now();
  look(2);
  EXPECT_THAT(run.log, ElementsAre("leave n3"));
  EXPECT_THAT(cluster.log, Contains("cancel 2"));
}

TEST_F(CareTest, GivesBackABrickAsSoonAsItsRanksHaveLeftAfterNotice) {
  brick();
  run.now.nodes.back().ranks = 0;
  run.now.nodes.back().going = true;
  run.now.nodes.back().agent = false;
  look(3);
  EXPECT_THAT(cluster.log, Contains("cancel 2"));
}

TEST_F(CareTest, LetsRanksLeaveADrainingNode) {
  cluster.set_node("n2", NodeState::leaving);
  look(2);
  EXPECT_THAT(run.log, ElementsAre("leave n2"));
  EXPECT_THAT(nodes_of(base), ElementsAre("n1"));
}

TEST_F(CareTest, TheScriptsNodeMayDrain) {
  cluster.set_node("n1", NodeState::leaving);
  look(3);
  EXPECT_THAT(run.log, IsEmpty());
}

TEST_F(CareTest, SaysOnceThatRanksCannotLeave) {
  cluster.set_node("n2", NodeState::leaving);
  run.refuses_leaving = "too few would be left";
  look(5);
  EXPECT_THAT(said, ElementsAre(HasSubstr("too few would be left")));
}

TEST_F(CareTest, NoNodeIsHeldForNothing) {
  ask("+1");
  run.now.nodes.back().ranks = 0;  // they have been asked to leave
  look(10);
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2", "n3"));
  look(10);
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2"));
}

TEST_F(CareTest, WhatACrashedControllerHasForgottenIsGivenBackAgain) {
  ask("+1");
  ask("-1");
  cluster.edit(base).nodes.push_back("n3");
  look(3);
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2"));
}

TEST_F(CareTest, NodesOfTheUsersOwnAreTheUsers) {
  cluster.edit(base).nodes.push_back("n3");  // by hand
  run.now.nodes[1].ranks = 0;
  look(40);
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2", "n3"));
}

TEST_F(CareTest, ABrokerThatComesNewCancelsWhatNobodyWaitsFor) {
  cluster.grants = false;
  cluster.expand(cluster.edit(base), {});
  BrickRequest pending;
  pending.base = base;
  pending.comment = brick_comment(base);
  pending.partition = "main";
  cluster.submit_brick(pending);
  cluster.grants = true;
  cluster.submit_brick(pending);  // all three run now
  look(3);
  expect_as_before();
}

TEST_F(CareTest, ABrokerThatComesNewKeepsWhatIsUsed) {
  const JobId id = brick();
  Care another(desk);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(another.look(false));
    time.wait(Seconds(5));
  }
  EXPECT_EQ(cluster.edit(id).state, JobState::running);
  EXPECT_THAT(ask("-1").removed, ElementsAre("n3"));
}

TEST_F(CareTest, SaysWhenTheBaseHasEnded) {
  cluster.end_job(base, "CANCELLED");
  EXPECT_FALSE(care.look(false));
}

TEST_F(CareTest, CancelsAllCompanions) {
  const JobId id = brick();
  cluster.end_job(base, "CANCELLED");
  EXPECT_TRUE(care.cancel_companions());
  EXPECT_EQ(cluster.edit(id).state, JobState::ended);
}

TEST_F(CareTest, SaysThatCompanionsCouldNotBeCancelled) {
  brick();
  cluster.reachable = false;
  EXPECT_FALSE(care.cancel_companions());
}

TEST_F(CareTest, AnAbsentControllerIsNoReasonForAnything) {
  brick();
  cluster.reachable = false;
  look(50);
  cluster.reachable = true;
  look(2);
  EXPECT_THAT(run.log, IsEmpty());
}

TEST_F(CareTest, TurboGrowsAndYields) {
  settings.mode = protocol::ElasticMode::turbo;
  look(2);
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2", "n3", "n4"));
  const JobId rigid = cluster.queue_job(1, "main", 1000);
  look(1);
  EXPECT_THAT(nodes_of(base), testing::SizeIs(3));
  EXPECT_EQ(cluster.job(rigid).state, JobState::running);
  look(3);
  EXPECT_THAT(nodes_of(base), testing::SizeIs(3));
  cluster.end_job(rigid, "COMPLETED");
  look(2);
  EXPECT_THAT(nodes_of(base), testing::SizeIs(4));
}

TEST_F(CareTest, EconomicStopsWhereNodesDoNotPay) {
  settings.mode = protocol::ElasticMode::economic;
  settings.economic.settle = std::chrono::seconds(10);
  for (int i = 0; i < 40; ++i) {
    const auto nodes = nodes_of(base).size();
    run.now.samples_per_second = nodes <= 3 ? 100.0 * static_cast<double>(nodes) : 310;
    look(1);
  }
  EXPECT_THAT(nodes_of(base), testing::SizeIs(3));
}

TEST_F(CareTest, TellsBellowsdWhatIsLeft) {
  run.now.samples_left = 1000;
  look(1);
  ASSERT_TRUE(guidance.job());
  EXPECT_EQ(guidance.job()->work_left, 1000);
}

TEST(GuidanceTest, AChangeIsOverHoweverItEnds) {
  Guidance guidance;
  ElasticJob job;
  job.held = {"n1", "n2"};
  guidance.publish(job);
  try {
    const Guidance::Change change(guidance, 1, {"n2"});
    EXPECT_EQ(guidance.job()->coming, 1);
    EXPECT_TRUE(guidance.job()->going.contains("n2"));
    throw ClusterError(ClusterError::Kind::unreachable, "slurmctld does not answer");
  } catch (const ClusterError&) {
    EXPECT_FALSE(guidance.job()->busy());
  }
}

}  // namespace
}  // namespace bellows::scheduler
