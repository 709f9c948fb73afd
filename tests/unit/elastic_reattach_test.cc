// SPDX-License-Identifier: Apache-2.0
// What one bellows-run leaves to the next, and how the job is found again in its agents' reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <fstream>

#include "mpi_elastic/common/node_report.h"
#include "mpi_elastic/common/process.h"
#include "mpi_elastic/coordinator/job_file.h"
#include "protocol/message.h"
#include "tests/unit/control_fixture.h"

namespace bellows::elastic {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- the file -----------------------------------------------------------------------------------

class ElasticJobFile : public test::ControlTest {
 protected:
  std::string path(const std::string& job) const { return folder() + "/" + job + ".job"; }
  static JobRecord record(const std::string& name) {
    JobRecord record;
    record.name = name;
    record.secret = "s3cret";
    record.port = 4711;
    record.addresses = {"10.0.0.1:4711", "127.0.0.1:4711"};
    record.allocation = {true, "80", {{"n1", 4, 2}, {"n2", 8, 0}}};
    record.options.elastic = {2, 9};
    record.options.program = record.program.arguments = {"train", "--lr", "0.1"};
    record.options.directory = record.program.directory = "/data";
    record.program.environment = {"A=1", "B=x y"};
    record.options.tag_output = true;
    record.options.grace_seconds = 33.5;
    record.options.events = "/data/events.jsonl";
    record.options.standalone = true;
    record.options.agent = "/opt/bellows-agent";
    record.nodes = {{"n1", 0, 100, 5000}, {"n2", 3, 101, 5001}};
    record.next_node = 7;
    return record;
  }
  static std::string refusal(const std::string& job) {
    try {
      read_job(job);
    } catch (const std::runtime_error& refused) {
      return refused.what();
    }
    return "read";
  }
};

TEST_F(ElasticJobFile, KeepsWhatTheNextLauncherNeeds) {
  const JobFile file("80.1");
  file.write(record("80.1"));
  const JobRecord read = read_job("80.1");
  EXPECT_EQ(read.name, "80.1");
  EXPECT_EQ(read.secret, "s3cret");
  EXPECT_EQ(read.port, 4711);
  EXPECT_THAT(read.addresses, ElementsAre("10.0.0.1:4711", "127.0.0.1:4711"));
  EXPECT_TRUE(read.allocation.slurm);
  EXPECT_EQ(read.allocation.job, "80");
  ASSERT_EQ(read.allocation.nodes.size(), 2U);
  EXPECT_EQ(read.allocation.nodes[1].cpus, 8);
  EXPECT_EQ(read.options.elastic, (std::pair{2, 9}));
  EXPECT_EQ(read.options.on_failure, OnFailure::go_on);
  EXPECT_THAT(read.options.program, ElementsAre("train", "--lr", "0.1"));
  EXPECT_EQ(read.options.directory, "/data");
  EXPECT_TRUE(read.options.tag_output);
  EXPECT_EQ(read.options.grace_seconds, 33.5);
  EXPECT_EQ(read.options.events, "/data/events.jsonl");
  EXPECT_TRUE(read.options.standalone);
  EXPECT_EQ(read.options.agent, "/opt/bellows-agent");
  EXPECT_THAT(read.program.environment, ElementsAre("A=1", "B=x y"));
  ASSERT_EQ(read.nodes.size(), 2U);
  EXPECT_EQ(read.nodes[1].name, "n2");
  EXPECT_EQ(read.nodes[1].id, 3U);
  EXPECT_EQ(read.nodes[1].pid, 101);
  EXPECT_EQ(read.nodes[1].started, 5001);
  EXPECT_EQ(read.next_node, 7U);
}

TEST_F(ElasticJobFile, IsPrivateIsReplacedAndGoesInTheEnd) {
  {
    const JobFile file("7");
    file.write(record("7"));
    struct stat status{};
    ASSERT_EQ(stat(path("7").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    // A launcher that was killed as it wrote leaves its half behind.
    std::ofstream(path("7") + ".new") << "{\"version\"";
    JobRecord later = record("7");
    later.nodes.clear();
    file.write(later);
    EXPECT_THAT(read_job("7").nodes, IsEmpty());
  }
  EXPECT_THAT(test::fs::is_empty(folder()), true);
}

TEST_F(ElasticJobFile, IsFoundByTheNumberOfTheSlurmJob) {
  const JobFile first("80.1");
  first.write(record("80.1"));
  EXPECT_EQ(read_job("80").name, "80.1");
  const JobFile other("81.1"), second("80.2");
  other.write(record("81.1"));
  EXPECT_EQ(read_job("80").name, "80.1");
  second.write(record("80.2"));
  EXPECT_THAT(refusal("80"), HasSubstr("has several launchers"));
  EXPECT_EQ(read_job("80.2").name, "80.2");
}

TEST_F(ElasticJobFile, IsMissedByItsName) {
  EXPECT_THROW(read_job("80"), NoSuchJob);
  EXPECT_THROW(read_job("../80"), NoSuchJob);
  EXPECT_THROW(read_job(""), NoSuchJob);
  EXPECT_THAT(refusal("local-9"), HasSubstr("no elastic job local-9 to take over"));
  setenv("BELLOWS_CONTROL_DIR", "/nowhere/at/all", 1);
  EXPECT_THROW(read_job("80"), NoSuchJob);
}

TEST_F(ElasticJobFile, IsNotTrustedWhenOthersMayWriteItOrItIsDamaged) {
  const JobFile file("7");
  file.write(record("7"));
  chmod(path("7").c_str(), 0644);
  EXPECT_THAT(refusal("7"), HasSubstr("not a file of this user's alone"));
  test::fs::rename(path("7"), folder() + "/elsewhere");
  test::fs::create_symlink(folder() + "/elsewhere", path("7"));
  EXPECT_THAT(refusal("7"), HasSubstr("cannot open"));
  test::fs::remove(path("7"));
  for (const char* text : {"", "{", "[]", "{}", R"({"version": 999})", R"({"version": 1})"}) {
    file.write(record("7"));
    std::ofstream(path("7"), std::ios::trunc) << text;
    EXPECT_THAT(refusal("7"), HasSubstr("cannot use " + path("7"))) << text;
  }
}

TEST(ElasticProcess, IsToldFromALaterOneOfTheSameId) {
  EXPECT_GT(process_started(getpid()), 0);
  EXPECT_EQ(process_started(getpid()), process_started(getpid()));
  EXPECT_EQ(process_started(999'999'999), 0);
}

// ---- the reports --------------------------------------------------------------------------------

WorldSpec world(std::uint32_t epoch, std::vector<std::uint64_t> on_n1,
                std::vector<std::uint64_t> on_n2) {
  WorldSpec spec;
  spec.epoch = epoch;
  spec.nspace = "job@" + std::to_string(epoch);
  const auto first = static_cast<std::uint32_t>(on_n1.size());
  spec.nodes = {{"n1", 0, 0, first}, {"n2", 1, first, static_cast<std::uint32_t>(on_n2.size())}};
  spec.members = std::move(on_n1);
  spec.members.insert(spec.members.end(), on_n2.begin(), on_n2.end());
  return spec;
}

RankReport rank(std::uint64_t member, std::uint32_t entered) {
  RankReport report;
  report.member = member;
  report.elastic = report.connected = true;
  report.entered = entered;
  return report;
}

// Members 1 and 2 on n1, 3 and 4 on n2, in the worlds 4 and 5.
class ElasticReports : public testing::Test {
 protected:
  ElasticReports() {
    const std::vector<WorldSpec> worlds{world(4, {1, 2}, {3, 4}), world(5, {1, 2}, {3, 4})};
    n1_ = {.node = "n1", .worlds = worlds, .ranks = {rank(1, 5), rank(2, 5)}, .context = 8};
    n2_ = {.node = "n2", .worlds = worlds, .ranks = {rank(3, 5), rank(4, 5)}, .context = 11};
    members_.restore_node("n1", 0);
    members_.restore_node("n2", 1);
  }
  FoundJob found() { return restore(members_, {n1_, n2_}); }
  static json::object ended() { return {{"code", 1}}; }

  Membership members_{"job"};
  NodeReport n1_, n2_;
};

TEST_F(ElasticReports, OfAJobThatStands) {
  const FoundJob job = found();
  EXPECT_FALSE(job.broken);
  EXPECT_THAT(job.lost, IsEmpty());
  EXPECT_THAT(job.not_entered, IsEmpty());
  EXPECT_THAT(job.gone, IsEmpty());
  EXPECT_EQ(job.context, 11U);
  EXPECT_EQ(members_.newest()->nspace, "job@5");
  EXPECT_EQ(members_.alive(), 4U);
  EXPECT_EQ(members_.member(3)->state, MemberState::running);
  EXPECT_EQ(members_.member(3)->node, "n2");
  // Epochs, members and nodes go on above what anybody knows.
  EXPECT_EQ(members_.declare_epoch().nspace, "job@6");
  EXPECT_EQ(members_.add_member("n1"), 5U);
  EXPECT_EQ(members_.add_node("n3"), 2U);
}

TEST_F(ElasticReports, TheHighestEpochThatAnybodyKnowsCounts) {
  n2_.worlds.push_back(world(6, {1, 2}, {3, 4, 9}));
  n2_.ranks.push_back(rank(9, 0));
  const FoundJob job = found();
  EXPECT_TRUE(job.broken);  // nobody has entered it
  EXPECT_EQ(job.not_entered.size(), 5U);
  EXPECT_EQ(members_.member(9)->state, MemberState::running);
  EXPECT_EQ(members_.declare_epoch().epoch, 7U);
  EXPECT_EQ(members_.add_member("n1"), 10U);
}

TEST_F(ElasticReports, AMemberThatNobodyKnowsIsLost) {
  n2_.ranks.pop_back();
  EXPECT_THAT(found().lost, ElementsAre(4));
  EXPECT_EQ(members_.member(4)->node, "n2");
}

TEST_F(ElasticReports, AMemberThatHasEndedMeanwhileIsStillToBeBooked) {
  n1_.ranks[1].end = ended();
  const FoundJob job = found();
  EXPECT_FALSE(job.broken);  // what follows from it is decided when it is booked
  EXPECT_THAT(job.gone, IsEmpty());
  EXPECT_EQ(members_.member(2)->state, MemberState::running);
}

TEST_F(ElasticReports, WhoDiedBeforeTheNewestWorldIsGone) {
  n1_.worlds[1] = n2_.worlds[1] = world(5, {1}, {3});
  n1_.ranks[1].end = ended();
  n2_.ranks.pop_back();  // 4 was on a node that is gone
  const FoundJob job = found();
  EXPECT_THAT(job.gone, ElementsAre(2, 4));
  EXPECT_THAT(job.lost, IsEmpty());
  EXPECT_FALSE(job.broken);
  EXPECT_TRUE(members_.gone({"job@4", 1}));
  EXPECT_TRUE(members_.gone({"job@4", 3}));
}

TEST_F(ElasticReports, AnOpenRequestOrTroubleMakesTheWorldVoid) {
  const std::vector<std::function<void()>> troubles{
      [&] { n1_.failed = 1; }, [&] { n1_.ranks[0].trouble = 5; }, [&] { n2_.ranks[1].left = 5; },
      [&] { n2_.ranks[0].entered = 4; }};
  for (const auto& trouble : troubles) {
    const NodeReport n1 = n1_, n2 = n2_;
    trouble();
    EXPECT_TRUE(found().broken);
    n1_ = n1, n2_ = n2;
  }
  n1_.ranks[0].trouble = n1_.ranks[1].left = 4;  // of the world before
  EXPECT_FALSE(found().broken);
}

TEST_F(ElasticReports, JoinersAndLeaversAreTold) {
  n1_.worlds[1] = n2_.worlds[1] = world(5, {1, 2}, {3});
  n2_.ranks[1].dismissed = true;
  n2_.ranks[1].entered = 4;
  n2_.ranks.push_back(rank(7, 0));
  n2_.ranks.back().ready = true;
  const FoundJob job = found();
  EXPECT_FALSE(job.broken);
  EXPECT_EQ(members_.member(4)->state, MemberState::leaving);
  EXPECT_THAT(job.held, testing::ElementsAre(4));
  EXPECT_EQ(members_.member(7)->state, MemberState::joining);
  n2_.ranks[1].released = true;
  EXPECT_THAT(found().held, testing::IsEmpty());
}

TEST_F(ElasticReports, TheFirstWorldMayStillBeLoading) {
  for (NodeReport* node : {&n1_, &n2_}) {
    node->worlds = {world(1, {1, 2}, {3, 4})};
    for (RankReport& one : node->ranks) one.entered = 0;
  }
  const FoundJob job = found();
  EXPECT_FALSE(job.broken);
  EXPECT_EQ(job.not_entered.size(), 4U);
}

TEST_F(ElasticReports, NobodyKnowsAnyWorld) {
  const FoundJob job = restore(members_, {});
  EXPECT_EQ(members_.newest(), nullptr);
  EXPECT_FALSE(job.broken);
}

TEST_F(ElasticReports, TravelAsJson) {
  n1_.ranks[0].abort_status = 3;
  n1_.ranks[0].end = ended();
  n1_.ranks[1].left = 2;
  n1_.ranks[1].dismissed = n1_.ranks[1].released = true;
  n1_.failed = 5;
  const json::object sent = to_json(n1_);
  EXPECT_EQ(to_json(node_report_from_json(sent)), sent);
  for (const auto& member : sent) {
    json::object without = sent;
    without.erase(member.key());
    EXPECT_THROW(node_report_from_json(without), protocol::ProtocolError) << member.key();
  }
}

}  // namespace
}  // namespace bellows::elastic
