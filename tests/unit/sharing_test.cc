// SPDX-License-Identifier: Apache-2.0
// How bellowsd shares a cluster among elastic jobs and lets the queue go first.
#include "scheduler/policy/sharing.h"

#include <gmock/gmock.h>

#include <random>

namespace bellows::test {
namespace {

using namespace scheduler;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string node_name(int number) { return "n" + std::to_string(number); }

/// Nodes n1 to nN of one partition; those of jobs are allocated.
class Site {
 public:
  explicit Site(int nodes) {
    for (int i = 1; i <= nodes; ++i) {
      NodeView node;
      node.name = node_name(i);
      node.state = NodeState::idle;
      node.cpus = node.free_cpus = 4;
      node.partitions = {"main"};
      around.nodes.push_back(node);
    }
  }

  /// Holds the nodes from `first` on, the first of them for ever, the last to be given back first.
  ElasticJob& job(JobId id, int first, int count, Bounds bounds) {
    ElasticJob job;
    job.id = id;
    job.partition = "main";
    job.manual = false;
    job.bounds = bounds;
    for (int i = first + count - 1; i >= first; --i) {
      job.held.push_back(node_name(i));
      at(i).state = NodeState::allocated;
    }
    job.fixed = {node_name(first)};
    around.jobs.push_back(job);
    return around.jobs.back();
  }

  void queue(JobId id, int nodes) {
    JobView pending;
    pending.id = id;
    pending.partition = "main";
    pending.least_nodes = nodes;
    pending.eligible = true;
    pending.shape.exclusive = true;
    around.pending.push_back(pending);
  }

  NodeView& at(int number) { return around.nodes[static_cast<std::size_t>(number - 1)]; }

  std::map<JobId, Decision> decide(const std::string& policy, const std::string& arguments = "") {
    return scheduler::decide(*make_cluster_policy(policy, arguments), around);
  }

  Surroundings around;
};

std::map<int, Speed> speeds(std::map<int, double> measured, Time when = {}) {
  std::map<int, Speed> all;
  for (const auto& [nodes, speed] : measured) all[nodes] = {speed, when};
  return all;
}

// ---- turbo --------------------------------------------------------------------------------------

TEST(Turbo, TakesAllIdleNodesWithinTheBounds) {
  Site site(6);
  site.job(1, 1, 2, {1, 5, 1});
  const auto decisions = site.decide("turbo");
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_EQ(decisions.at(1).grow, 3);
  EXPECT_THAT(decisions.at(1).give_back, IsEmpty());
}

TEST(Turbo, GivesIdleNodesToWhoGainsMost) {
  Site site(6);
  site.job(1, 1, 2, {1, 6, 1}).speeds = speeds({{1, 100}, {2, 105}});
  site.job(2, 3, 2, {1, 6, 1}).speeds = speeds({{1, 100}, {2, 198}});
  const auto decisions = site.decide("turbo");
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_EQ(decisions.at(2).grow, 2);
}

TEST(Turbo, TakesNothingFromOthers) {
  Site site(4);
  site.job(1, 1, 3, {1, 4, 1});
  site.job(2, 4, 1, {1, 4, 1});
  EXPECT_THAT(site.decide("turbo"), IsEmpty());
}

TEST(Turbo, GrowsInWholeSteps) {
  Site site(6);
  site.job(1, 1, 1, {1, 6, 2});
  EXPECT_EQ(site.decide("turbo").at(1).grow, 5);  // the maximum is a size, too
  site.at(6).state = NodeState::down;
  EXPECT_EQ(site.decide("turbo").at(1).grow, 4);
  site.at(5).state = NodeState::down;
  EXPECT_EQ(site.decide("turbo").at(1).grow, 2);
}

TEST(Turbo, LeavesNodesOfOtherKindsAlone) {
  Site site(4);
  site.job(1, 1, 1, {1, 4, 1}).features = "fast";
  site.at(3).features = {"fast"};
  site.at(4).partitions = {"other"};
  EXPECT_EQ(site.decide("turbo").at(1).grow, 1);
}

// ---- where companions may lie
// ---------------------------------------------------------------------

/// n5 to n8 are in another partition.
class Places : public testing::Test {
 protected:
  Places() {
    for (int i = 5; i <= 8; ++i) site.at(i).partitions = {"spot"};
  }
  Site site{8};
};

TEST_F(Places, TheOneThatHasMostForTheJobComesFirst) {
  site.job(1, 1, 3, {1, 8, 1}).places = {{"spot", "", 8}};
  const Decision first = site.decide("turbo").at(1);
  EXPECT_EQ(first.grow, 4);
  EXPECT_EQ(first.companion, 1u);
  site.around.jobs[0].places[0].most = 0;
  EXPECT_EQ(site.decide("turbo").at(1).grow, 1);
  EXPECT_EQ(site.decide("turbo").at(1).companion, 0u);
}

TEST_F(Places, AreUsedUpToTheirLimit) {
  site.job(1, 1, 4, {1, 8, 1}).places = {{"spot", "", 3}};
  EXPECT_EQ(site.decide("fair").at(1).grow, 3);
}

TEST_F(Places, GiveWholeUnits) {
  site.job(1, 1, 3, {1, 8, 2}).places = {{"spot", "", 3}};
  site.at(8).state = NodeState::down;
  const Decision decision = site.decide("turbo").at(1);  // n5 and n6; n4 and n7 are of two places
  EXPECT_EQ(decision.grow, 2);
  EXPECT_EQ(decision.companion, 1u);
}

TEST_F(Places, WhatAJobHasThereIsItsOwn) {
  for (const char* policy : {"turbo", "fair", "afs"}) {
    ElasticJob& job = site.job(1, 1, 4, {1, 8, 1});
    for (int i = 5; i <= 8; ++i) {
      job.held.insert(job.held.begin(), node_name(i));
      site.at(i).state = NodeState::allocated;
    }
    EXPECT_THAT(site.decide(policy), IsEmpty()) << policy;
    site.around.jobs.clear();
  }
}

TEST_F(Places, AreSharedWithTheJobsOfTheirPartition) {
  site.job(1, 1, 4, {1, 8, 1}).places = {{"spot", "", 8}};
  site.job(2, 5, 4, {1, 8, 1}).partition = "spot";
  EXPECT_THAT(site.decide("fair"), IsEmpty());
  site.queue(7, 4);
  site.around.jobs[0].bounds.least = 4;
  EXPECT_THAT(site.decide("fair"), IsEmpty());  // job 7 cannot run in spot
  site.around.jobs[0].held = {"n1"};
  for (int i = 2; i <= 4; ++i) site.at(i).state = NodeState::allocated;  // by others
  site.around.jobs[0].bounds.least = 1;
  const auto decisions = site.decide("fair");
  EXPECT_THAT(decisions.at(2).give_back, ElementsAre("n8"));  // 2 and 3 of these five
}

// ---- the queue ----------------------------------------------------------------------------------

TEST(Queue, GetsTheNodesThatCameLast) {
  for (const char* policy : {"turbo", "fair", "afs", "economic"}) {
    Site site(4);
    site.job(1, 1, 4, {1, 4, 1});
    site.queue(7, 2);
    const auto decisions = site.decide(policy);
    ASSERT_EQ(decisions.size(), 1u) << policy;
    EXPECT_THAT(decisions.at(1).give_back, ElementsAre("n4", "n3")) << policy;
    EXPECT_THAT(decisions.at(1).why, HasSubstr("job 7")) << policy;
  }
}

TEST(Queue, TakesIdleNodesBeforeThoseOfJobs) {
  Site site(5);
  site.job(1, 1, 3, {1, 5, 1});
  site.queue(7, 3);
  const auto decisions = site.decide("turbo");
  EXPECT_THAT(decisions.at(1).give_back, ElementsAre("n3"));
  EXPECT_EQ(decisions.at(1).grow, 0);
}

TEST(Queue, IsGivenNothingThatDoesNotLetItStart) {
  Site site(4);
  site.job(1, 1, 4, {3, 4, 1});
  site.queue(7, 2);
  EXPECT_THAT(site.decide("turbo"), IsEmpty());
}

TEST(Queue, IsHelpedByTheOneThatHasMostToSpare) {
  Site site(6);
  site.job(1, 1, 2, {1, 6, 1});
  site.job(2, 3, 4, {1, 6, 1});
  site.queue(7, 1);
  const auto decisions = site.decide("turbo");
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_THAT(decisions.at(2).give_back, ElementsAre("n6"));
}

TEST(Queue, IsNotGivenTwiceWhatIsOnItsWay) {
  Site site(4);
  site.job(1, 1, 4, {1, 4, 1}).going = {"n4"};
  site.queue(7, 1);
  EXPECT_THAT(site.decide("turbo"), IsEmpty());
}

TEST(Queue, KeepsIdleNodesForWhoWillStartWithThem) {
  Site site(4);
  site.job(1, 1, 2, {1, 4, 1});
  site.queue(7, 2);
  EXPECT_THAT(site.decide("turbo"), IsEmpty());
}

TEST(Queue, NeedsRoomOnANodeOnlyIfItIsNotExclusive) {
  Site site(2);
  site.job(1, 1, 2, {1, 2, 1});
  site.at(2).state = NodeState::allocated;
  site.queue(7, 1);
  site.around.pending[0].shape.exclusive = false;
  EXPECT_EQ(site.decide("turbo").at(1).give_back.size(), 1u);
}

// ---- jobs that are left alone -------------------------------------------------------------------

TEST(LeftAlone, AreManualAndBusyJobs) {
  Site site(6);
  site.job(1, 1, 1, {1, 6, 1}).manual = true;
  site.job(2, 2, 1, {1, 6, 1}).coming = 4;
  EXPECT_THAT(site.decide("turbo"), IsEmpty());
}

TEST(LeftAlone, AreNodesThatAreComingToAnother) {
  Site site(6);
  site.job(1, 1, 1, {1, 6, 1});
  site.job(2, 2, 1, {1, 6, 1}).coming = 3;
  EXPECT_EQ(site.decide("turbo").at(1).grow, 1);
}

TEST(LeftAlone, AreNodesThatMustBeKept) {
  Site site(3);
  site.job(1, 1, 3, {1, 3, 1}).fixed = {"n1", "n3"};
  site.queue(7, 1);
  EXPECT_THAT(site.decide("turbo").at(1).give_back, ElementsAre("n2"));
}

// ---- fair ---------------------------------------------------------------------------------------

TEST(Fair, MovesNodesUntilAllHaveTheSame) {
  Site site(6);
  site.job(1, 1, 5, {1, 6, 1});
  site.job(2, 6, 1, {1, 6, 1});
  auto decisions = site.decide("fair");
  EXPECT_THAT(decisions.at(1).give_back, ElementsAre("n5", "n4"));
  EXPECT_FALSE(decisions.contains(2));  // when they are idle
  site.around.jobs[0].held = {"n3", "n2", "n1"};
  site.at(4).state = site.at(5).state = NodeState::idle;
  decisions = site.decide("fair");
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_EQ(decisions.at(2).grow, 2);
}

TEST(Fair, IsStableWhereItCannotBeEqual) {
  Site site(5);
  site.job(1, 1, 2, {1, 5, 1});
  site.job(2, 3, 3, {1, 5, 1});
  EXPECT_THAT(site.decide("fair"), IsEmpty());
}

TEST(Fair, RespectsMinimumAndMaximum) {
  Site site(8);
  site.job(1, 1, 4, {4, 8, 1});
  site.job(2, 5, 1, {1, 2, 1});
  const auto decisions = site.decide("fair");
  EXPECT_EQ(decisions.at(1).grow, 2);
  EXPECT_EQ(decisions.at(2).grow, 1);
}

// ---- afs ----------------------------------------------------------------------------------------

TEST(Afs, PrefersTheShorterOfTwoThatScaleAlike) {
  Site site(5);
  site.job(1, 1, 1, {1, 6, 1}).work_left = 1000;
  site.job(2, 2, 1, {1, 6, 1}).work_left = 1'000'000;
  for (ElasticJob& job : site.around.jobs) job.speeds = speeds({{1, 100}, {2, 190}});
  const auto decisions = site.decide("afs");
  EXPECT_EQ(decisions.at(1).grow, 2);
  EXPECT_EQ(decisions.at(2).grow, 1);
}

TEST(Afs, PrefersTheLongerWhereTheShorterGainsLittle) {
  Site site(4);
  site.job(1, 1, 1, {1, 6, 1}).work_left = 1000;
  site.job(2, 2, 1, {1, 6, 1}).work_left = 1'000'000;
  site.around.jobs[0].speeds = speeds({{1, 100}, {2, 101}});
  site.around.jobs[1].speeds = speeds({{1, 100}, {2, 199}});
  const auto decisions = site.decide("afs");
  EXPECT_FALSE(decisions.contains(1));
  EXPECT_EQ(decisions.at(2).grow, 2);
}

// ---- economic -----------------------------------------------------------------------------------

TEST(EconomicSharing, GrowsByOneWhileItPays) {
  Site site(4);
  site.job(1, 1, 2, {1, 4, 1}).speeds = speeds({{1, 100}, {2, 195}});
  EXPECT_EQ(site.decide("economic").at(1).grow, 1);
}

TEST(EconomicSharing, WaitsForTheSpeedOfTheNewSize) {
  Site site(4);
  site.job(1, 1, 2, {1, 4, 1}).speeds = speeds({{1, 100}});
  EXPECT_THAT(site.decide("economic"), IsEmpty());
}

TEST(EconomicSharing, GivesBackWhatDoesNotPay) {
  Site site(4);
  site.job(1, 1, 3, {1, 4, 1}).speeds = speeds({{1, 100}, {2, 120}, {3, 122}});
  const auto decisions = site.decide("economic");
  EXPECT_THAT(decisions.at(1).give_back, ElementsAre("n3", "n2"));
  EXPECT_EQ(site.decide("economic", "gain=0.05").at(1).grow, 1);
}

// ---- what jobs say of their size
// ------------------------------------------------------------------

SizeHints says(int best, int economic) {
  SizeHints hints;
  hints.best_nodes = best;
  hints.economic_nodes = economic;
  return hints;
}

TEST(Hints, OfTheBestSizeEndGrowth) {
  for (const char* policy : {"turbo", "fair", "afs"}) {
    Site site(6);
    site.job(1, 1, 1, {1, 6, 1}).hints = says(3, 2);
    site.around.jobs[0].work_left = 1000;
    EXPECT_EQ(site.decide(policy).at(1).grow, 2) << policy;
    site.around.jobs[0].hints = says(1, 1);
    EXPECT_THAT(site.decide(policy), IsEmpty()) << policy;
    site.around.jobs[0].hints.reset();
    EXPECT_EQ(site.decide(policy).at(1).grow, 5) << policy;
  }
}

TEST(Hints, GiveSpareNodesToThoseWhoGain) {
  for (const char* policy : {"turbo", "fair", "afs"}) {
    Site site(8);
    site.job(1, 1, 1, {1, 8, 1}).hints = says(2, 2);
    site.job(2, 2, 1, {1, 8, 1});
    const auto decisions = site.decide(policy);
    EXPECT_EQ(decisions.at(1).grow, 1) << policy;
    EXPECT_EQ(decisions.at(2).grow, 5) << policy;
  }
}

TEST(Hints, TakeNothingThatNobodyElseWants) {
  for (const char* policy : {"turbo", "fair", "afs"}) {
    Site site(4);
    site.job(1, 1, 4, {1, 4, 1}).hints = says(2, 2);
    EXPECT_THAT(site.decide(policy), IsEmpty()) << policy;
  }
  Site site(6);
  site.job(1, 1, 4, {1, 6, 1}).hints = says(2, 2);
  site.job(2, 5, 2, {1, 6, 1});
  EXPECT_THAT(site.decide("turbo"), IsEmpty());
  EXPECT_THAT(site.decide("fair").at(1).give_back, ElementsAre("n4", "n3"));
}

TEST(Hints, GiveWayToWhatWasMeasured) {
  Site site(4);
  ElasticJob& job = site.job(1, 1, 2, {1, 3, 1});
  job.hints = says(2, 2);
  job.speeds = speeds({{2, 200}, {3, 280}});
  EXPECT_EQ(site.decide("turbo").at(1).grow, 1);
  EXPECT_EQ(site.decide("economic").at(1).grow, 1);
  job.hints = says(4, 4);
  job.speeds = speeds({{2, 200}, {3, 190}});
  EXPECT_THAT(site.decide("turbo"), IsEmpty());
  EXPECT_THAT(site.decide("economic"), IsEmpty());
}

TEST(Hints, LeadEconomicJobsToTheSizeThatPays) {
  Site site(8);
  ElasticJob& job = site.job(1, 1, 2, {1, 8, 1});
  job.speeds = speeds({{2, 200}});
  job.hints = says(7, 5);
  EXPECT_EQ(site.decide("economic").at(1).grow, 3);              // at once
  EXPECT_EQ(site.decide("economic", "gain=0.6").at(1).grow, 1);  // of which they say nothing
  job.hints = says(7, 2);
  EXPECT_THAT(site.decide("economic"), IsEmpty());
  job.hints = says(7, 1);
  EXPECT_THAT(site.decide("economic").at(1).give_back, ElementsAre("n2"));
  job.speeds = speeds({{1, 100}, {2, 190}});
  EXPECT_THAT(site.decide("economic"), IsEmpty());
}

TEST(Hints, AreHeldWithinTheBounds) {
  Site site(8);
  site.job(1, 1, 2, {2, 6, 2}).hints = says(5, 5);
  EXPECT_EQ(site.decide("turbo").at(1).grow, 2);  // 4 is a size, 5 is none
  site.around.jobs[0].hints = says(1, 1);
  site.around.jobs[0].speeds = speeds({{2, 200}});
  EXPECT_THAT(site.decide("economic"), IsEmpty());
}

TEST(ClusterPolicies, AreNamed) {
  EXPECT_THROW(make_cluster_policy("fairest"), std::invalid_argument);
  EXPECT_THROW(make_cluster_policy("fair", "gain=1"), std::invalid_argument);
  EXPECT_THROW(make_cluster_policy("economic", "gain=much"), std::invalid_argument);
}

// ---- speeds -------------------------------------------------------------------------------------

TEST(SpeedModelTest, FitsAmdahlsLaw) {
  const auto amdahl = [](int n) { return 1 / (0.01 / n + 0.001); };
  const SpeedModel model(speeds({{1, amdahl(1)}, {2, amdahl(2)}, {4, amdahl(4)}}));
  EXPECT_NEAR(model.speed(8), amdahl(8), 1e-6);
  EXPECT_NEAR(model.gain(1, 1), (amdahl(2) - amdahl(1)) / amdahl(1), 1e-9);
}

TEST(SpeedModelTest, HopesForTheBestWithOneSizeAndNone) {
  EXPECT_NEAR(SpeedModel(speeds({{2, 200}})).speed(4), 400, 1e-9);
  EXPECT_NEAR(SpeedModel({}).gain(3, 2), 1, 1e-9);
}

TEST(SpeedModelTest, ExpectsNothingWhereMoreNodesWereSlower) {
  EXPECT_NEAR(SpeedModel(speeds({{1, 100}, {2, 80}})).gain(2, 1), 0, 1e-9);
}

// ---- everything at once -------------------------------------------------------------------------

// What must hold for any cluster, whatever the policy.
TEST(Sharing, KeepsItsPromisesOnClustersDrawnByChance) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 draw(seed);
    const auto up_to = [&](int most) { return std::uniform_int_distribution(0, most)(draw); };
    Site site(30);
    int next = 1;
    for (JobId id = 1; next + 6 < 30; ++id) {
      const int count = 1 + up_to(5);
      const Bounds bounds{1 + up_to(count - 1), count + up_to(10), 1 + up_to(2)};
      ElasticJob& job = site.job(id, next, count, bounds);
      job.manual = up_to(9) == 0;
      if (up_to(9) == 0) job.coming = up_to(3);
      if (up_to(1) == 0) job.speeds = speeds({{1, 100}, {count + 1, 100.0 + up_to(300)}});
      if (up_to(2) == 0) job.hints = says(1 + up_to(12), 1 + up_to(6));
      if (up_to(1) == 0) job.work_left = 1000.0 * up_to(1000);
      next += count + up_to(2);
    }
    for (int i = up_to(4); i > 0; --i) site.queue(static_cast<JobId>(100 + i), 1 + up_to(6));
    for (const char* policy : {"turbo", "fair", "afs", "economic"}) {
      int grown = 0, idle = 0;
      for (const NodeView& node : site.around.nodes) idle += node.state == NodeState::idle;
      for (const auto& [id, decision] : site.decide(policy)) {
        const ElasticJob& job = site.around.jobs[id - 1];
        EXPECT_FALSE(job.manual || job.busy());
        EXPECT_TRUE(decision.grow == 0 || decision.give_back.empty());
        const int size = static_cast<int>(job.held.size() - decision.give_back.size());
        EXPECT_GE(size, job.bounds.least);
        EXPECT_LE(size + decision.grow, job.bounds.most);
        for (const std::string& node : decision.give_back) {
          EXPECT_FALSE(job.fixed.contains(node));
          EXPECT_THAT(job.held, testing::Contains(node));
        }
        EXPECT_FALSE(decision.why.empty());
        grown += decision.grow;
      }
      EXPECT_LE(grown, idle) << policy << ", seed " << seed;
    }
  }
}

TEST(Sharing, DecidesForAThousandJobsAtOnce) {
  Site site(5000);
  for (int i = 0; i < 1000; ++i) {
    site.job(static_cast<JobId>(i + 1), 1 + i * 4, 3, {1, 16, 1}).speeds =
        speeds({{1, 100.0 + i}, {3, 250.0 + i}});
  }
  for (int i = 0; i < 50; ++i) site.queue(static_cast<JobId>(2000 + i), 20);
  for (const char* policy : {"turbo", "fair", "afs"}) {
    EXPECT_FALSE(site.decide(policy).empty()) << policy;
  }
}

}  // namespace
}  // namespace bellows::test
