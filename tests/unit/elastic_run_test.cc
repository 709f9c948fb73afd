// SPDX-License-Identifier: Apache-2.0
// bellows-run's own decisions: options, where ranks go, what their ends mean, tagged output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "mpi_elastic/coordinator/allocation.h"
#include "mpi_elastic/coordinator/job_outcome.h"
#include "mpi_elastic/coordinator/output.h"
#include "mpi_elastic/coordinator/run_options.h"

namespace bellows::elastic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// ---- options ------------------------------------------------------------------------------------

RunOptions parse(std::vector<std::string> words) {
  words.insert(words.begin(), "bellows-run");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return parse_run_options(static_cast<int>(words.size()), argv.data());
}

std::string refusal(std::vector<std::string> words) {
  try {
    parse(std::move(words));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ElasticOptions, HaveDefaults) {
  const RunOptions options = parse({"program"});
  EXPECT_FALSE(options.ranks || options.ranks_per_node || options.local_nodes);
  EXPECT_THAT(options.program, ElementsAre("program"));
  EXPECT_EQ(options.bind, "auto");
  EXPECT_EQ(options.on_failure, OnFailure::stop);
  EXPECT_FALSE(options.tag_output);
  EXPECT_EQ(options.ports, (std::pair<std::uint16_t, std::uint16_t>{0, 0}));
  EXPECT_NE(options.directory, "");
}

TEST(ElasticOptions, AreRead) {
  const RunOptions options = parse({"-n",
                                    "4",
                                    "--ranks-per-node=2",
                                    "--local-nodes",
                                    "2",
                                    "-D",
                                    "/tmp",
                                    "--bind-to",
                                    "none",
                                    "--gpus-per-rank=1",
                                    "--tag-output",
                                    "--report-bindings",
                                    "-v",
                                    "--on-failure=continue",
                                    "--kill-wait",
                                    "1.5",
                                    "--start-timeout=7",
                                    "--silence-timeout=3",
                                    "--port=4000-4010",
                                    "--agent=/x/agent",
                                    "program"});
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.ranks_per_node, 2);
  EXPECT_EQ(options.local_nodes, 2);
  EXPECT_EQ(options.directory, "/tmp");
  EXPECT_EQ(options.bind, "none");
  EXPECT_EQ(options.gpus_per_rank, 1);
  EXPECT_TRUE(options.tag_output && options.report_bindings && options.verbose);
  EXPECT_EQ(options.on_failure, OnFailure::go_on);
  EXPECT_EQ(options.kill_wait_seconds, 1.5);
  EXPECT_EQ(options.start_seconds, 7);
  EXPECT_EQ(options.silence_seconds, 3);
  EXPECT_EQ(options.ports, (std::pair<std::uint16_t, std::uint16_t>{4000, 4010}));
  EXPECT_EQ(options.agent, "/x/agent");
  EXPECT_EQ(parse({"--port=5000", "x"}).ports,
            (std::pair<std::uint16_t, std::uint16_t>{5000, 5000}));
  EXPECT_EQ(parse({"-n4", "x"}).ranks, 4);
}

TEST(ElasticOptions, EndAtTheProgramsName) {
  const RunOptions options = parse({"-n", "2", "program", "-n", "3", "--tag-output", "--", "-x"});
  EXPECT_EQ(options.ranks, 2);
  EXPECT_FALSE(options.tag_output);
  EXPECT_THAT(options.program, ElementsAre("program", "-n", "3", "--tag-output", "--", "-x"));
  EXPECT_THAT(parse({"--tag-output", "--", "--odd-name", "-n"}).program,
              ElementsAre("--odd-name", "-n"));
  EXPECT_THAT(parse({"-n", "2", "--", "p", "--", "q"}).program, ElementsAre("p", "--", "q"));
  EXPECT_THAT(parse({"-vn2", "p"}).program, ElementsAre("p"));
}

TEST(ElasticOptions, EachWrongValueNamesItsOption) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"-n", "0", "x"}, "--ranks=0: must be at least 1"},
      {{"-n", "-3", "x"}, "--ranks=-3: must be at least 1"},
      {{"-n", "two", "x"}, "--ranks"},
      {{"-n", "99999999999", "x"}, "--ranks"},
      {{"-n", "1.5", "x"}, "--ranks"},
      {{"-n", "100001", "x"}, "--ranks=100001: must be at least 1 and at most 100000"},
      {{"--local-nodes=1001", "x"}, "--local-nodes=1001"},
      {{"--ranks-per-node=0", "x"}, "--ranks-per-node=0"},
      {{"--local-nodes=0", "x"}, "--local-nodes=0"},
      {{"--gpus-per-rank=-1", "x"}, "--gpus-per-rank=-1: must be at least 0"},
      {{"--bind-to=socket", "x"}, "--bind-to: 'socket' is not one of auto, core, none"},
      {{"--on-failure=maybe", "x"}, "--on-failure: 'maybe' is not one of stop, continue"},
      {{"--kill-wait=0", "x"}, "--kill-wait"},
      {{"--kill-wait=-1", "x"}, "--kill-wait"},
      {{"--kill-wait=nan", "x"}, "--kill-wait"},
      {{"--start-timeout=soon", "x"}, "--start-timeout"},
      {{"--start-timeout=inf", "x"}, "--start-timeout"},
      {{"--silence-timeout=0", "x"}, "--silence-timeout"},
      {{"--silence-timeout=1e-9", "x"}, "--silence-timeout: must be from 0.1 to 1000000 seconds"},
      {{"--port=0", "x"}, "--port=0"},
      {{"--port=65536", "x"}, "--port=65536"},
      {{"--port=4000-", "x"}, "--port=4000-"},
      {{"--port=-4000", "x"}, "--port=-4000"},
      {{"--port=4010-4000", "x"}, "the second port is below the first"},
      {{"--port=http", "x"}, "--port=http"},
      {{"--frob", "x"}, "--frob"},
      {{"--ran", "2", "x"}, "--ran"},
      {{"--local", "2", "x"}, "--local"},
      {{"-q", "x"}, "-q"},
      {{"-n"}, "--ranks"},
      {{"--chdir"}, "--chdir"},
      {{"--tag-output=yes", "x"}, "--tag-output"},
      {{"-n", "2", "-n", "3", "x"}, "--ranks"},
      {{}, "no program named"},
      {{"-n", "2"}, "no program named"},
      {{"--"}, "no program named"},
  };
  for (const auto& [words, message] : wrong) {
    EXPECT_THAT(refusal(words), HasSubstr(message)) << testing::PrintToString(words);
  }
}

// ---- where ranks go -----------------------------------------------------------------------------

TEST(ElasticAllocation, CountsAreExpanded) {
  EXPECT_THAT(expand_counts("4(x2),3"), ElementsAre(4, 4, 3));
  EXPECT_THAT(expand_counts("1"), ElementsAre(1));
  EXPECT_THAT(expand_counts("72(x1)"), ElementsAre(72));
  EXPECT_THAT(expand_counts("2,4(x3),2"), ElementsAre(2, 4, 4, 4, 2));
  EXPECT_THAT(expand_counts(""), IsEmpty());
  for (const char* text : {"x", "4(", "4(x", "4(x)", "4(x2", "4(x2)3", "4,", ",4", "0", "-1",
                           "4(x0)", "4 ,3", "99999999999", "4(y2)"}) {
    EXPECT_THROW(expand_counts(text), AllocationError) << text;
  }
}

Allocation slurm(std::vector<int> cpus, std::vector<int> tasks = {}) {
  Allocation allocation;
  allocation.slurm = true;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    allocation.nodes.push_back(
        {"n" + std::to_string(i + 1), cpus[i], tasks.empty() ? 0 : tasks[i]});
  }
  return allocation;
}

Allocation local(int nodes, int cpus) {
  Allocation allocation = slurm(std::vector<int>(static_cast<std::size_t>(nodes), cpus));
  allocation.slurm = false;
  return allocation;
}

using Placed = std::vector<std::pair<std::string, int>>;
Placed place(const Allocation& allocation, std::optional<int> ranks = {},
             std::optional<int> per_node = {}) {
  RunOptions options;
  options.ranks = ranks;
  options.ranks_per_node = per_node;
  return place_ranks(allocation, options);
}

TEST(ElasticPlacement, InSlurmWithoutCountsIsOnePerNode) {
  EXPECT_THAT(place(slurm({4, 8})), ElementsAre(Pair("n1", 1), Pair("n2", 1)));
}

TEST(ElasticPlacement, SlurmsTasksHold) {
  EXPECT_THAT(place(slurm({4, 8, 2}, {3, 5, 1})),
              ElementsAre(Pair("n1", 3), Pair("n2", 5), Pair("n3", 1)));
  EXPECT_THAT(place(slurm({4, 8}, {3, 5}), 4), ElementsAre(Pair("n1", 3), Pair("n2", 1)));
  EXPECT_THAT(place(slurm({4, 8}, {3, 5}), 3), ElementsAre(Pair("n1", 3)));
}

TEST(ElasticPlacement, FillsNodesInBlocks) {
  EXPECT_THAT(place(slurm({4, 8}), 6), ElementsAre(Pair("n1", 4), Pair("n2", 2)));
  EXPECT_THAT(place(slurm({4, 8}), 2), ElementsAre(Pair("n1", 2)));
  EXPECT_THAT(place(slurm({4, 4}), 8), ElementsAre(Pair("n1", 4), Pair("n2", 4)));
}

TEST(ElasticPlacement, TooManyRanksAreSpreadEvenly) {
  EXPECT_THAT(place(slurm({1, 1, 1}), 8), ElementsAre(Pair("n1", 3), Pair("n2", 3), Pair("n3", 2)));
  EXPECT_THAT(place(slurm({2, 2}, {1, 1}), 5), ElementsAre(Pair("n1", 3), Pair("n2", 2)));
}

TEST(ElasticPlacement, RanksPerNodeIsALimit) {
  EXPECT_THAT(place(slurm({4, 8, 8}), {}, 2),
              ElementsAre(Pair("n1", 2), Pair("n2", 2), Pair("n3", 2)));
  EXPECT_THAT(place(slurm({4, 8}, {3, 5}), {}, 1), ElementsAre(Pair("n1", 1), Pair("n2", 1)));
  EXPECT_THAT(place(slurm({4, 8}), 3, 2), ElementsAre(Pair("n1", 2), Pair("n2", 1)));
  EXPECT_THAT(place(local(3, 2), 4, 2), ElementsAre(Pair("n1", 2), Pair("n2", 2)));
  EXPECT_THAT(place(slurm({1, 1}), {}, 4), ElementsAre(Pair("n1", 4), Pair("n2", 4)));
  try {
    place(slurm({4, 8}), 5, 2);
    ADD_FAILURE() << "5 ranks placed as 2 on each of 2 nodes";
  } catch (const AllocationError& error) {
    EXPECT_STREQ(error.what(), "-n 5 ranks do not fit --ranks-per-node=2 on 2 nodes");
  }
}

TEST(ElasticPlacement, HereItIsOnePerCoreOrOnePerLocalNode) {
  EXPECT_THAT(place(local(1, 6)), ElementsAre(Pair("n1", 6)));
  EXPECT_THAT(place(local(1, 2), 5), ElementsAre(Pair("n1", 5)));
  EXPECT_THAT(place(local(4, 2)),
              ElementsAre(Pair("n1", 1), Pair("n2", 1), Pair("n3", 1), Pair("n4", 1)));
  EXPECT_THAT(place(local(2, 8), 4), ElementsAre(Pair("n1", 2), Pair("n2", 2)));
  EXPECT_THAT(place(local(4, 8), 2), ElementsAre(Pair("n1", 1), Pair("n2", 1)));
}

class ElasticSlurm : public testing::Test {
 protected:
  ElasticSlurm() {
    for (const char* name : kNames) unsetenv(name);
  }
  ~ElasticSlurm() override {
    for (const char* name : kNames) unsetenv(name);
  }
  static constexpr std::array<const char*, 7> kNames{
      "SLURM_JOB_ID",         "SLURM_JOB_NODELIST",    "SLURM_JOB_CPUS_PER_NODE", "SLURM_NTASKS",
      "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_STEP_NUM_TASKS"};
  static std::string refusal() {
    try {
      find_allocation(RunOptions{});
    } catch (const AllocationError& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(ElasticSlurm, OutsideAJobItIsThisMachine) {
  const Allocation allocation = find_allocation(RunOptions{});
  EXPECT_FALSE(allocation.slurm);
  EXPECT_EQ(allocation.nodes.size(), 1U);
  EXPECT_GE(allocation.nodes[0].cpus, 1);
  EXPECT_THAT(allocation.job, testing::StartsWith("local-"));
}

TEST_F(ElasticSlurm, CopiesThatSrunStartedAreRefused) {
  setenv("SLURM_JOB_ID", "4711", 1);
  setenv("SLURM_STEP_NUM_TASKS", "2", 1);
  EXPECT_THAT(refusal(), testing::StartsWith("srun has started 2 copies of bellows-run"));
  setenv("SLURM_STEP_NUM_TASKS", "1", 1);  // the interactive step of salloc
  EXPECT_THAT(refusal(), testing::StartsWith("SLURM_JOB_ID is set but SLURM_JOB_NODELIST is not"));
}

TEST_F(ElasticSlurm, LocalNodesHaveNamesOfTheirOwnAndPassTheJobBy) {
  setenv("SLURM_JOB_ID", "4711", 1);
  RunOptions options;
  options.local_nodes = 3;
  const Allocation allocation = find_allocation(options);
  EXPECT_FALSE(allocation.slurm);
  ASSERT_EQ(allocation.nodes.size(), 3U);
  EXPECT_NE(allocation.nodes[0].name, allocation.nodes[1].name);
}

TEST_F(ElasticSlurm, AJobWithoutANodeListIsRefused) {
  setenv("SLURM_JOB_ID", "4711", 1);
  EXPECT_THAT(refusal(), HasSubstr("SLURM_JOB_NODELIST is not"));
}

TEST_F(ElasticSlurm, AnOddNodeListReachesNoShell) {
  setenv("SLURM_JOB_ID", "4711", 1);
  for (const char* list : {"n1;touch x", "n1'", "$(id)", "n1 n2", "`id`"}) {
    setenv("SLURM_JOB_NODELIST", list, 1);
    EXPECT_THAT(refusal(), HasSubstr("is no list of nodes")) << list;
  }
}

// ---- how ranks end ------------------------------------------------------------------------------

RankEnd end_of(std::int64_t rank, int code, int signal = 0) {
  RankEnd end;
  end.rank = rank;
  end.node = "n1";
  end.pid = 42;
  end.code = code;
  end.signal = signal;
  end.seconds = 1.26;
  return end;
}

int job_code(const std::vector<RankEnd>& ends, OnFailure on_failure = OnFailure::stop) {
  JobOutcome outcome(on_failure);
  for (const RankEnd& end : ends) outcome.add(end);
  return outcome.exit_code();
}

std::string job_summary(const std::vector<RankEnd>& ends) {
  JobOutcome outcome(OnFailure::stop);
  for (const RankEnd& end : ends) outcome.add(end);
  return outcome.summary();
}

RankEnd stopped(RankEnd end) {
  end.stopped = true;
  return end;
}

TEST(ElasticOutcome, OneRanksEnd) {
  EXPECT_EQ(exit_code_of(end_of(0, 0)), 0);
  EXPECT_EQ(exit_code_of(end_of(0, 7)), 7);
  EXPECT_EQ(exit_code_of(end_of(0, 0, SIGSEGV)), 139);
  RankEnd end = end_of(0, 0);
  end.connected = true;
  EXPECT_EQ(exit_code_of(end), 1);
  EXPECT_EQ(describe(end), "rank 0 on n1 (pid 42) ended without calling MPI_Finalize after 1.3 s");
  end.finalized = true;
  EXPECT_EQ(exit_code_of(end), 0);
  end.abort_status = 42;
  EXPECT_EQ(exit_code_of(end), 42);
  end.abort_status = 0;
  EXPECT_EQ(exit_code_of(end), 1);
  end.abort_status = 256;
  EXPECT_EQ(exit_code_of(end), 1);
  end.abort_status = -1;
  EXPECT_EQ(exit_code_of(end), 255);
}

TEST(ElasticOutcome, SaysWhatHappened) {
  EXPECT_EQ(describe(end_of(3, 7)), "rank 3 on n1 (pid 42) ended with exit code 7 after 1.3 s");
  EXPECT_EQ(describe(end_of(3, 0, SIGKILL)),
            "rank 3 on n1 (pid 42) was killed by SIGKILL after 1.3 s");
  RankEnd end = end_of(2, 1);
  end.abort_status = 42;
  EXPECT_EQ(describe(end), "rank 2 on n1 (pid 42) called MPI_Abort with status 42 after 1.3 s");
  end = end_of(2, 127);
  end.error = "cannot start 'x': no such program in PATH";
  EXPECT_EQ(describe(end), "rank 2 on n1: cannot start 'x': no such program in PATH");
  end = end_of(2, 0);
  end.node_lost = true;
  end.error = "no sign of life for 10 s";
  EXPECT_EQ(describe(end), "rank 2 on n1 was lost with its node: no sign of life for 10 s");
  EXPECT_EQ(exit_code_of(end), 1);
}

TEST(ElasticOutcome, TheJobHasTheHighestExitCode) {
  EXPECT_EQ(job_code({}), 0);
  EXPECT_EQ(job_code({end_of(0, 0), end_of(1, 0)}), 0);
  EXPECT_EQ(job_code({end_of(0, 3), end_of(1, 7), end_of(2, 0)}), 7);
  EXPECT_EQ(job_code({end_of(0, 3), end_of(1, 0, SIGKILL)}), 137);
}

TEST(ElasticOutcome, RanksThatTheLauncherStoppedDoNotCount) {
  EXPECT_EQ(job_code({end_of(0, 7), stopped(end_of(1, 0, SIGTERM))}), 7);
  EXPECT_EQ(job_summary({end_of(0, 7), stopped(end_of(1, 0, SIGTERM))}),
            "rank 0 on n1 (pid 42) ended with exit code 7 after 1.3 s; the other rank was stopped");
  EXPECT_THAT(job_summary({end_of(0, 7), stopped(end_of(1, 9)), stopped(end_of(2, 9))}),
              testing::EndsWith("; the other 2 ranks were stopped"));
}

TEST(ElasticOutcome, WhoDiesOfAnothersDeathIsNotTheCause) {
  RankEnd told = end_of(0, 75);
  told.connected = true;
  told.abort_status = 75;
  EXPECT_TRUE(is_consequence(told));
  EXPECT_EQ(job_code({told, end_of(1, 7)}), 7);
  EXPECT_EQ(job_code({end_of(1, 7), told}), 7);
  EXPECT_THAT(job_summary({told, end_of(1, 7)}), HasSubstr("rank 1"));
  EXPECT_EQ(job_code({told, told}), 75);
  EXPECT_THAT(job_summary({told}), HasSubstr("rank 0"));
  EXPECT_FALSE(is_consequence(end_of(0, 75)));  // no MPI program
}

TEST(ElasticOutcome, TheSummaryIsAboutTheFirstFailure) {
  EXPECT_EQ(job_summary({end_of(0, 0), end_of(1, 0)}), "");
  EXPECT_THAT(job_summary({end_of(0, 0), end_of(1, 3), end_of(2, 9)}), HasSubstr("rank 1"));
}

TEST(ElasticOutcome, WhereFailuresAreSurvivedTheSurvivorsSpeak) {
  const auto go_on = OnFailure::go_on;
  EXPECT_EQ(job_code({end_of(0, 0, SIGKILL), end_of(1, 0)}, go_on), 0);
  EXPECT_EQ(job_code({end_of(0, 0, SIGKILL), end_of(1, 4)}, go_on), 4);
  EXPECT_EQ(job_code({end_of(0, 0, SIGKILL), end_of(1, 0, SIGSEGV)}, go_on), 139);
  RankEnd lost = end_of(0, 0);
  lost.node_lost = true;
  EXPECT_EQ(job_code({lost, end_of(1, 0)}, go_on), 0);
  EXPECT_EQ(job_code({lost}, go_on), 1);
  EXPECT_EQ(job_code({end_of(0, 0, SIGKILL), end_of(1, 0)}), 137);
}

// ---- tagged output ------------------------------------------------------------------------------

TEST(ElasticTags, BeginWholeLines) {
  LineTagger tagger(true);
  EXPECT_EQ(tagger.add(3, 1, "one\ntw"), "[3] one\n");
  EXPECT_EQ(tagger.add(4, 1, "other\n"), "[4] other\n");
  EXPECT_EQ(tagger.add(3, 2, "error\n"), "[3] error\n");
  EXPECT_EQ(tagger.add(3, 1, "o\n\nthree\n"), "[3] two\n[3] \n[3] three\n");
  EXPECT_EQ(tagger.finish(3, 1), "");
}

TEST(ElasticTags, AnUnfinishedLineComesAtTheEnd) {
  LineTagger tagger(true);
  EXPECT_EQ(tagger.add(0, 1, "no line feed"), "");
  EXPECT_EQ(tagger.finish(0, 2), "");
  EXPECT_EQ(tagger.finish(0, 1), "[0] no line feed\n");
  EXPECT_EQ(tagger.finish(0, 1), "");
}

TEST(ElasticTags, AnEndlessLineComesInPieces) {
  LineTagger tagger(true);
  std::size_t written = 0;
  const std::string piece(std::size_t{1} << 16, 'x');
  for (int i = 0; i < 64; ++i) written += tagger.add(0, 1, piece).size();
  EXPECT_GT(written, std::size_t{3} << 20);
}

TEST(ElasticTags, WithoutThemBytesPassAsTheyCome) {
  LineTagger tagger(false);
  EXPECT_EQ(tagger.add(3, 1, std::string("a\0b", 3)), std::string("a\0b", 3));
  EXPECT_EQ(tagger.finish(3, 1), "");
}

}  // namespace
}  // namespace bellows::elastic
