// SPDX-License-Identifier: Apache-2.0
// A job grows and shrinks on a simulated cluster: in order, late, in part, never.
#include "tests/unit/scheduler_fixture.h"

namespace bellows::scheduler {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(BrokerTest, GrowsByExpansion) {
  const ResizeReport report = ask("+1");
  EXPECT_THAT(report.added, ElementsAre("n3"));
  EXPECT_EQ(report.how, "expansion");
  EXPECT_EQ(report.nodes, 3);
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(run.log, ElementsAre("add n3"));
}

TEST_F(BrokerTest, GrowsByNames) {
  EXPECT_THAT(ask("+n4").added, ElementsAre("n4"));
  EXPECT_EQ(refusal("+n4"), "the job has node n4 already");
}

TEST_F(BrokerTest, HasExactlyTheNamedNodes) {
  const ResizeReport report = ask("n1,n3,n4");
  EXPECT_THAT(report.added, ElementsAre("n3", "n4"));
  EXPECT_THAT(report.removed, ElementsAre("n2"));
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n3", "n4"));
}

TEST_F(BrokerTest, GivesBackWhatCameLast) {
  ask("+n4");
  ask("+n3");
  EXPECT_THAT(ask("-1").removed, ElementsAre("n3"));
  EXPECT_THAT(ask("2").removed, ElementsAre("n4"));
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2"));
  EXPECT_EQ(ask("2").nodes, 2);
}

TEST_F(BrokerTest, RefusesWhatTheBoundsDoNotAllow) {
  settings.bounds = {2, 4, 2};
  EXPECT_THAT(refusal("+4"), HasSubstr("2 to 4 nodes, not 6"));
  EXPECT_THAT(refusal("+1"), HasSubstr("in steps of 2"));
  EXPECT_THAT(refusal("-1"), HasSubstr("2 to 4 nodes, not 1"));
  settings.bounds = {1, 100, 1};
  EXPECT_THAT(refusal("+7"), HasSubstr("bellows-run allows 8 ranks"));
  expect_as_before();
}

TEST_F(BrokerTest, TheScriptsNodeStays) {
  EXPECT_THAT(refusal("-n1"), HasSubstr("runs the job's script"));
  EXPECT_THAT(refusal("n2"), HasSubstr("runs the job's script"));
  EXPECT_THAT(refusal("-n4"), HasSubstr("does not have node n4"));
}

TEST_F(BrokerTest, WaitsForNodes) {
  cluster.grants = false;
  time.at(Seconds(20), [this] { cluster.grants = true; });
  const ResizeReport report = ask("+1");
  EXPECT_THAT(report.added, ElementsAre("n3"));
  EXPECT_GE(report.allocation, Seconds(20));
}

TEST_F(BrokerTest, GivesUpAtTheLimitAndSaysWhy) {
  cluster.grants = false;
  EXPECT_THAT(refusal("+1", 10),
              HasSubstr("no nodes in time: expansion: job 2 is pending (Resources)"));
  cluster.grants = true;
  expect_as_before();
}

TEST_F(BrokerTest, GivesUpForANewerRequest) {
  cluster.grants = false;
  time.at(Seconds(5), [this] { stop = "a newer request has come: -1"; });
  EXPECT_EQ(refusal("+1"), "a newer request has come: -1");
  expect_as_before();
}

TEST_F(BrokerTest, GivesUpWhenTheProcessEnds) {
  cluster.grants = false;
  time.at(Seconds(5), [this] { time.stop(); });
  EXPECT_EQ(refusal("+1"), "the job is ending");
  expect_as_before();
}

TEST_F(BrokerTest, AGrantThatIsRevokedIsRefused) {
  cluster.grants = false;
  time.at(Seconds(5), [this] { cluster.end_job(2, "CANCELLED"); });
  EXPECT_THAT(refusal("+1"), HasSubstr("job 2 was ended (CANCELLED)"));
  expect_as_before();
}

TEST_F(BrokerTest, WhatTheControllerForgetsIsAskedForAgain) {
  cluster.grants = false;
  time.at(Seconds(5), [this] { cluster.forget_job(2); });
  time.at(Seconds(10), [this] { cluster.grants = true; });
  EXPECT_THAT(ask("+1").added, ElementsAre("n3"));
}

TEST_F(BrokerTest, AnExpansionThatTheControllerForgetsIsAskedForAgain) {
  cluster.grants = false;
  cluster.forgets_expansions = true;
  time.at(Seconds(10), [this] {
    cluster.grants = true;
    cluster.forgets_expansions = false;
  });
  EXPECT_THAT(ask("+1").added, ElementsAre("n3"));
  EXPECT_EQ(nodes_of(base), (std::vector<std::string>{"n1", "n2", "n3"}));
  EXPECT_THAT(cluster.log, Contains("cancel 2"));
}

TEST_F(BrokerTest, ItIsNotAskedForForEver) {
  cluster.forgets_expansions = true;
  EXPECT_THAT(refusal("+1", 120), HasSubstr("it expands no job"));
  expect_as_before();
}

TEST_F(BrokerTest, AJobThatGetsTheNumberOfAForgottenOneIsLetAlone) {
  cluster.grants = false;
  time.at(Seconds(5), [this] {
    JobView& other = cluster.edit(2);
    other.comment = "";
    other.state = JobState::running;
    other.nodes = {"n3"};
  });
  time.at(Seconds(10), [this] { cluster.grants = true; });
  EXPECT_THAT(ask("+1").added, ElementsAre("n4"));
  EXPECT_EQ(cluster.job(2).state, JobState::running);
}

TEST_F(BrokerTest, ANodeWhoseAgentDoesNotStartIsGivenBack) {
  run.failing["n3"] = "srun ended with exit code 1";
  EXPECT_THAT(refusal("+1"), HasSubstr("n3 was given back: srun ended with exit code 1"));
  expect_as_before();
}

TEST_F(BrokerTest, WhatComesOfANodeDoesNotConcernTheOthers) {
  run.failing["n3"] = "its agent did not start";
  const ResizeReport report = ask("+2");
  EXPECT_THAT(report.added, ElementsAre("n4"));
  EXPECT_THAT(report.remarks, ElementsAre(HasSubstr("n3 was given back")));
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2", "n4"));
}

TEST_F(BrokerTest, RanksThatDoNotComeUpInTimeAreTakenBack) {
  run.hangs = true;
  EXPECT_THAT(refusal("+1", 30), HasSubstr("n3 were given back: no answer in time"));
  expect_as_before();
}

TEST_F(BrokerTest, NodesAreGivenBackAlthoughBellowsRunHasDied) {
  time.at(Seconds(1), [this] { run.gone = true; });
  EXPECT_THAT(refusal("+1"), HasSubstr("given back: no bellows-run listens"));
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2"));
}

TEST_F(BrokerTest, AControllerThatIsAwayForAWhileIsWaitedOut) {
  cluster.reachable = false;
  time.at(Seconds(15), [this] { cluster.reachable = true; });
  EXPECT_THAT(ask("+1").added, ElementsAre("n3"));
}

TEST_F(BrokerTest, AControllerThatIsAwayTooLongIsTheReason) {
  cluster.reachable = false;
  EXPECT_THAT(refusal("+1", 15), HasSubstr("no answer from the controller"));
}

TEST_F(BrokerTest, WhatIsOwedToAnAbsentControllerIsDoneLater) {
  cluster.grants = false;
  time.at(Seconds(5), [this] { cluster.reachable = false; });
  EXPECT_NE(refusal("+1", 10), "granted");
  EXPECT_THAT(desk.to_cancel, ElementsAre(2U));
  cluster.reachable = true;
  look();
  EXPECT_TRUE(desk.to_cancel.empty());
  expect_as_before();
}

TEST_F(BrokerTest, NodesAreGivenBackWhenTheControllerIsBack) {
  ask("+1");
  time.at(Seconds(0), [this] { cluster.reachable = false; });
  cluster.loses_answers = true;
  const ResizeReport report = ask("-1");
  EXPECT_THAT(report.remarks, ElementsAre(HasSubstr("it gets n3 back when it does")));
  cluster.loses_answers = false;
  look();
  EXPECT_TRUE(desk.to_give_back.empty());
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2"));
}

TEST_F(BrokerTest, AnAnswerThatIsLostDoesNotLoseNodes) {
  cluster.loses_answers = true;
  time.at(Seconds(0.5), [this] { cluster.loses_answers = false; });
  const std::string refused = refusal("+1");
  EXPECT_EQ(refused, "granted") << testing::PrintToString(cluster.log);
  look(3);  // cancels the expansion that nobody had heard of
  EXPECT_THAT(nodes_of(base), testing::SizeIs(3));
  for (const JobView& job : cluster.jobs()) {
    if (job.id != base) {
      EXPECT_EQ(job.state, JobState::ended);
    }
  }
}

TEST_F(BrokerTest, GrowsByABrickWhereSlurmDoesNotExpand) {
  cluster.settings.expansion = false;
  const ResizeReport report = ask("+1");
  EXPECT_THAT(report.how, "companion job 2 in main");
  EXPECT_THAT(run.log, ElementsAre("add n3 by 2"));
  EXPECT_THAT(nodes_of(base), ElementsAre("n1", "n2"));
  EXPECT_THAT(ask("-1").removed, ElementsAre("n3"));
  expect_as_before();
}

TEST_F(BrokerTest, AJobWithGpusIsNotExpanded) {
  cluster.edit(base).shape.gres = "gres/gpu:2";
  cluster.edit(base).has_gres = true;
  EXPECT_EQ(ask("+1").how, "companion job 2 in main");
  EXPECT_EQ(cluster.edit(2).shape.gres, "gres/gpu:2");
}

TEST_F(BrokerTest, GrowsByABrickWhenTheExpansionCannotBeMerged) {
  cluster.refuses_merging = "it has allocated GRES";
  EXPECT_EQ(ask("+1").how, "companion job 3 in main");
  EXPECT_THAT(cluster.log, Contains("cancel 2"));  // the expansion
  ask("-1");
  EXPECT_EQ(ask("+1").how, "companion job 4 in main");  // at once: it is known now
}

TEST_F(BrokerTest, TheNextPlaceIsAskedWhenTheExpansionCannotBeMerged) {
  settings.companions = {
      {.partition = "spot", .qos = "", .features = "", .gres = "", .account = "", .most = 1}};
  cluster.refuses_merging = "it has allocated GRES";
  EXPECT_EQ(ask("+1").how, "companion job 3 in spot");
  EXPECT_THAT(refusal("+1"), HasSubstr("companion jobs in spot may have 1 nodes"));
}

TEST_F(BrokerTest, TriesTheNextPlaceWhenTheFirstTakesItsTime) {
  settings.companions = {
      {.partition = "spot", .qos = "", .features = "", .gres = "", .account = "", .most = {}}};
  cluster.set_node("n3", NodeState::down);
  cluster.set_node("n4", NodeState::down);
  const ResizeReport report = ask("+1");
  EXPECT_THAT(report.added, ElementsAre("s1"));
  EXPECT_THAT(report.how, "companion job 3 in spot");
  EXPECT_THAT(cluster.log, Contains("cancel 2"));  // the expansion
}

TEST_F(BrokerTest, TriesTheNextPlaceAtOnceWhenTheFirstIsRefused) {
  settings.companions = {
      {.partition = "spot", .qos = "", .features = "", .gres = "", .account = "", .most = 1}};
  cluster.refuses_expansion = "not permitted";
  EXPECT_LT(ask("+1").allocation, Seconds(1));
  EXPECT_THAT(refusal("+1"), testing::AllOf(HasSubstr("not permitted"),
                                            HasSubstr("companion jobs in spot may have 1 nodes")));
}

TEST_F(BrokerTest, ABrickEndsBeforeTheBase) {
  cluster.settings.expansion = false;
  cluster.edit(base).end = in(30);
  EXPECT_THAT(refusal("+1"), HasSubstr("ends in less than a minute"));
  cluster.edit(base).end = in(100);
  EXPECT_THAT(ask("+1").added, ElementsAre("n3"));
}

TEST_F(BrokerTest, ABricksOwnNodeGoesLast) {
  cluster.settings.expansion = false;
  ask("+2");
  const JobId brick = 2;
  EXPECT_THAT(refusal("-n3"), HasSubstr("n4 would have to go as well"));
  EXPECT_THAT(ask("-1").removed, ElementsAre("n4"));
  EXPECT_THAT(nodes_of(brick), ElementsAre("n3"));
  EXPECT_THAT(ask("-1").removed, ElementsAre("n3"));
  EXPECT_EQ(cluster.edit(brick).state, JobState::ended);
}

TEST_F(BrokerTest, RanksThatMustStayKeepTheirNodes) {
  run.refuses_leaving = "1 of 2 ranks would stay, --elastic=2-8 needs 2";
  EXPECT_EQ(refusal("-1"), run.refuses_leaving);
  expect_as_before();
}

TEST_F(BrokerTest, AComponentOfAHetJobGrowsByItself) {
  JobView second = cluster.edit(base);
  const JobId id = cluster.start_job({"s1"}, "spot", geteuid());
  cluster.add_node("s2", {"spot"});
  cluster.edit(id).batch_host = "";
  cluster.edit(id).het_leader = base;
  cluster.edit(base).het_leader = base;
  run.now.nodes.push_back({.name = "s1", .job = std::to_string(id), .ranks = 1});
  const ResizeReport report = resize(desk, parse_size_request("+1"), 1, in(60), [] { return ""; });
  EXPECT_THAT(report.added, ElementsAre("s2"));
  EXPECT_THAT(nodes_of(id), ElementsAre("s1", "s2"));
  EXPECT_THAT(run.log, ElementsAre("add s2 by 1+1"));
  EXPECT_THAT(refusal("-s1,s2"), HasSubstr("must keep one of its nodes"));
  EXPECT_THROW(resize(desk, parse_size_request("+1"), 2, in(60), [] { return ""; }), Refused);
}

}  // namespace
}  // namespace bellows::scheduler
