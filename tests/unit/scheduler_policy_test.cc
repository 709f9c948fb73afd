// SPDX-License-Identifier: Apache-2.0
// The policies: pure functions of what can be seen of a cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/policy/policy.h"

namespace bellows::scheduler {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

NodeView node(const std::string& name, NodeState state, int free = 0) {
  NodeView view;
  view.name = name;
  view.state = state;
  view.cpus = 4;
  view.free_cpus = state == NodeState::idle ? 4 : free;
  view.features = {(name.back() - '0') % 2 == 1 ? "fast" : "slow"};
  view.partitions = {"main", "spot"};
  return view;
}

JobView running(JobId id, std::vector<std::string> nodes) {
  JobView job;
  job.id = id;
  job.state = JobState::running;
  job.partition = "main";
  job.batch_host = nodes[0];
  job.nodes = std::move(nodes);
  job.least_nodes = static_cast<int>(job.nodes.size());
  return job;
}

JobView waiting(JobId id, int nodes, const std::string& features = "") {
  JobView job;
  job.id = id;
  job.state = JobState::pending;
  job.eligible = true;
  job.partition = "main";
  job.least_nodes = nodes;
  job.least_cpus = nodes;
  job.priority = 1000 - id;
  job.shape.features = features;
  job.shape.exclusive = true;
  return job;
}

// Our job on n1, n2, n3, with n1 as its script's node; n4 is in the state given.
class Policy : public testing::Test {
 protected:
  Outlook look(std::vector<JobView> jobs, NodeState n4 = NodeState::allocated) {
    jobs.push_back(running(1, {"n1", "n2", "n3"}));
    return outlook(bounds, {jobs.back()}, {"n1"}, companions, jobs,
                   {node("n1", NodeState::allocated), node("n2", NodeState::allocated),
                    node("n3", NodeState::allocated), node("n4", n4)});
  }
  Bounds bounds{1, 8, 1};
  std::vector<protocol::CompanionPlace> companions;
};

TEST(Sizes, AreTheLeastPlusStepsUpToTheMost) {
  const Bounds bounds{2, 9, 3};
  EXPECT_EQ(allowed_size(bounds, 1), 2);
  EXPECT_EQ(allowed_size(bounds, 4), 2);
  EXPECT_EQ(allowed_size(bounds, 5), 5);
  EXPECT_EQ(allowed_size(bounds, 7), 5);
  EXPECT_EQ(allowed_size(bounds, 100), 9);
  EXPECT_EQ(why_not_size(bounds, 8), "");
  EXPECT_THAT(why_not_size(bounds, 10), HasSubstr("2 to 9 nodes"));
  EXPECT_THAT(why_not_size(bounds, 6), HasSubstr("in steps of 3"));
}

TEST_F(Policy, IdleNodesOfACompanionsPlaceCount) {
  JobView base = running(1, {"n1"});
  base.shape.features = "fast";
  JobView brick = running(2, {"n2"});
  brick.partition = "spot";
  brick.comment = brick_comment(1);
  const std::vector<NodeView> nodes = {
      node("n1", NodeState::allocated), node("n2", NodeState::allocated),
      node("n3", NodeState::idle), node("n4", NodeState::idle), node("n6", NodeState::idle)};
  const auto grows = [&](const std::vector<protocol::CompanionPlace>& places,
                         const std::vector<JobView>& queue = {}) {
    const Decision decision = turbo(outlook(bounds, {base, brick}, {"n1"}, places, queue, nodes));
    return std::pair(decision.grow, decision.companion);
  };
  protocol::CompanionPlace spot;
  spot.partition = "spot";
  spot.features = "slow";
  using std::pair;
  EXPECT_EQ(grows({}), pair(1, 0UL));      // n3
  EXPECT_EQ(grows({spot}), pair(2, 1UL));  // n4 and n6: all from one place
  spot.most = 2;                           // n2 is there already
  EXPECT_EQ(grows({spot}), pair(1, 0UL));
  spot.most = {};
  EXPECT_EQ(grows({spot}, {waiting(9, 1, "slow")}), pair(1, 0UL));  // n4 is the pending job's
  spot.partition = "elsewhere";
  EXPECT_EQ(grows({spot}), pair(1, 0UL));
}

TEST_F(Policy, GrowsIntoIdleNodes) {
  EXPECT_EQ(turbo(look({}, NodeState::idle)).grow, 1);
  EXPECT_TRUE(turbo(look({}, NodeState::allocated)).nothing());
  EXPECT_TRUE(turbo(look({}, NodeState::down)).nothing());
  EXPECT_TRUE(turbo(look({}, NodeState::leaving)).nothing());
}

TEST_F(Policy, GrowsToTheBoundsOnly) {
  bounds.most = 3;
  EXPECT_TRUE(turbo(look({}, NodeState::idle)).nothing());
  bounds = {1, 8, 2};  // 1, 3, 5: one idle node is not enough
  EXPECT_TRUE(turbo(look({}, NodeState::idle)).nothing());
}

TEST_F(Policy, LeavesAnIdleNodeToAJobThatWillStartThere) {
  EXPECT_TRUE(turbo(look({waiting(7, 1)}, NodeState::idle)).nothing());
}

TEST_F(Policy, DoesNotMindAJobThatCannotUseTheIdleNode) {
  EXPECT_EQ(turbo(look({waiting(7, 9)}, NodeState::idle)).grow, 1);
}

TEST_F(Policy, GivesBackWhatCameLastAsSoonAsAJobCouldStart) {
  EXPECT_THAT(turbo(look({waiting(7, 1)})).give_back, ElementsAre("n3"));
  EXPECT_THAT(turbo(look({waiting(7, 2)})).give_back, ElementsAre("n3", "n2"));
  EXPECT_THAT(turbo(look({waiting(7, 2)}, NodeState::idle)).give_back, ElementsAre("n3"));
  EXPECT_THAT(turbo(look({waiting(7, 1)})).why, HasSubstr("job 7"));
}

TEST_F(Policy, KeepsItsNodesWhereTheyHelpNobody) {
  EXPECT_TRUE(turbo(look({waiting(7, 4)})).nothing());  // the script's node stays
  bounds.least = 3;
  EXPECT_TRUE(turbo(look({waiting(7, 1)})).nothing());
  bounds.least = 1;
  JobView held = waiting(7, 1);
  held.eligible = false;
  EXPECT_TRUE(turbo(look({held})).nothing());
  JobView elsewhere = waiting(7, 1);
  elsewhere.partition = "other";
  EXPECT_TRUE(turbo(look({elsewhere})).nothing());
}

TEST_F(Policy, GivesBackWhatFits) {
  EXPECT_THAT(turbo(look({waiting(7, 1, "slow")})).give_back, ElementsAre("n2"));
  JobView named = waiting(7, 1);
  named.wants = {"n2"};
  EXPECT_THAT(turbo(look({named})).give_back, ElementsAre("n2"));
  named.wants = {};
  named.wants_not = {"n3"};
  EXPECT_THAT(turbo(look({named})).give_back, ElementsAre("n2"));
}

TEST_F(Policy, HelpsTheFirstOfTheQueueThatCanBeHelped) {
  EXPECT_THAT(turbo(look({waiting(8, 2), waiting(7, 1)})).give_back, ElementsAre("n3"));
  EXPECT_THAT(turbo(look({waiting(8, 1), waiting(7, 9)})).give_back, ElementsAre("n3"));
}

TEST_F(Policy, GivesBackWholeSteps) {
  bounds = {1, 8, 2};
  EXPECT_THAT(turbo(look({waiting(7, 1)})).give_back, UnorderedElementsAre("n3", "n2"));
}

TEST_F(Policy, CountsCoresWhereAJobWantsMoreThanItsNodesHave) {
  JobView job = waiting(7, 1);
  job.least_cpus = 8;  // two nodes of four
  EXPECT_THAT(turbo(look({job})).give_back, ElementsAre("n3", "n2"));
}

TEST_F(Policy, DoesNotYieldToItsOwnCompanions) {
  JobView brick = waiting(7, 1);
  brick.comment = brick_comment(1);
  EXPECT_TRUE(turbo(look({brick})).nothing());
  brick.comment = brick_comment(2);
  EXPECT_FALSE(turbo(look({brick})).nothing());
}

TEST_F(Policy, GrowsNoFurtherThanTheJobGains) {
  JobView base = running(1, {"n1"});
  std::vector<NodeView> nodes = {node("n1", NodeState::allocated)};
  for (const char* name : {"n2", "n3", "n4", "n5"}) nodes.push_back(node(name, NodeState::idle));
  Outlook seen = outlook(bounds, {base}, {"n1"}, {}, {base}, nodes);
  EXPECT_EQ(turbo(seen).grow, 4);
  seen.hints.emplace().best_nodes = 3;
  EXPECT_EQ(turbo(seen).grow, 2);
  EXPECT_EQ(turbo(seen, {{1, {100, {}}}, {2, {90, {}}}}).grow, 0);  // as was measured
  seen.hints->best_nodes = 1;
  EXPECT_TRUE(turbo(seen).nothing());
  EXPECT_EQ(turbo(seen, {{1, {100, {}}}, {2, {150, {}}}}).grow, 1);
  seen.bounds.step = 2;
  seen.hints->best_nodes = 4;
  EXPECT_EQ(turbo(seen).grow, 2);
}

class Economic : public Policy {
 protected:
  Decision decide(const std::map<int, double>& speeds, seconds lasted = seconds(60)) {
    std::map<int, Speed> measured;
    for (const auto& [nodes, speed] : speeds) measured[nodes] = {speed, now - age};
    Outlook seen = look(jobs, NodeState::idle);
    seen.hints = hints;
    return economic(seen, settings, measured, now - lasted, now);
  }
  void say(int best, int pay) {
    hints.emplace().best_nodes = best;
    hints->economic_nodes = pay;
  }
  std::optional<SizeHints> hints;
  EconomicSettings settings;
  std::vector<JobView> jobs;
  Time now = Time(seconds(1'000'000));
  seconds age{0};
};

TEST_F(Economic, WaitsUntilTheSpeedIsKnown) {
  EXPECT_TRUE(decide({}).nothing());
  EXPECT_TRUE(decide({{3, 300}}, seconds(5)).nothing());
  EXPECT_EQ(decide({{3, 300}}).grow, 1);
}

TEST_F(Economic, GivesBackWhatDoesNotPay) {
  EXPECT_THAT(decide({{2, 200}, {3, 220}}).give_back, ElementsAre("n3"));
  EXPECT_EQ(decide({{2, 200}, {3, 280}}).grow, 1);
}

TEST_F(Economic, DoesNotTryAgainTooSoon) {
  EXPECT_TRUE(decide({{3, 300}, {4, 310}}).nothing());
  age = seconds(3600);
  EXPECT_EQ(decide({{3, 300}, {4, 310}}).grow, 1);
}

TEST_F(Economic, GoesToTheSizeThatTheJobSaysPays) {
  say(8, 3);
  EXPECT_TRUE(decide({{3, 300}}).nothing());
  say(8, 4);
  EXPECT_EQ(decide({{3, 300}}).grow, 1);
  EXPECT_TRUE(decide({}).nothing());  // not before it has settled
  say(8, 2);
  EXPECT_THAT(decide({{3, 300}}).give_back, ElementsAre("n3"));
  EXPECT_THAT(decide({{3, 300}}).why, HasSubstr("predicts that 2 nodes pay"));
  settings.least_gain = 0.4;  // of which it says nothing
  EXPECT_EQ(decide({{3, 300}}).grow, 1);
}

TEST_F(Economic, BelievesWhatWasMeasuredFirst) {
  say(8, 2);
  EXPECT_TRUE(decide({{2, 200}, {3, 280}}).nothing());
  EXPECT_EQ(decide({{2, 200}, {3, 280}, {4, 360}}).grow, 1);
  say(8, 4);
  EXPECT_THAT(decide({{2, 200}, {3, 220}}).give_back, ElementsAre("n3"));
  EXPECT_TRUE(decide({{3, 300}, {4, 310}}).nothing());
  age = seconds(3600);
  EXPECT_EQ(decide({{3, 300}, {4, 310}}).grow, 1);
}

TEST_F(Economic, YieldsFirst) {
  jobs = {waiting(7, 2)};
  EXPECT_THAT(decide({{3, 300}}).give_back, ElementsAre("n3"));
}

TEST(EconomicArguments, AreNumbersWithNames) {
  const EconomicSettings settings = economic_settings("gain=0.25,settle=5,retry=60");
  EXPECT_EQ(settings.least_gain, 0.25);
  EXPECT_EQ(settings.settle, seconds(5));
  EXPECT_EQ(settings.retry, seconds(60));
  EXPECT_THROW(economic_settings("gian=1"), std::invalid_argument);
  EXPECT_THROW(economic_settings("gain=much"), std::invalid_argument);
  EXPECT_THROW(economic_settings("gain"), std::invalid_argument);
  EXPECT_EQ(economic_settings("").least_gain, EconomicSettings{}.least_gain);
}

}  // namespace
}  // namespace bellows::scheduler
