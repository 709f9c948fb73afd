// SPDX-License-Identifier: Apache-2.0
// The options of elastic jobs: what each takes and refuses, what goes together, and what is read of
// the command line that they stand on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "spank_plugin/checks.h"
#include "spank_plugin/command_line.h"
#include "spank_plugin/environment.h"
#include "spank_plugin/options.h"

namespace bellows::spank {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string parsed(OptionId id, const char* value) { return parse_option(option(id), value); }

std::string refusal(OptionId id, const char* value) {
  try {
    return "accepted: " + parsed(id, value);
  } catch (const ValueError& error) {
    return error.what();
  }
}

void expect_refused(OptionId id, std::initializer_list<const char*> values) {
  const std::string option_form =
      "; use --" + std::string(option(id).name) + "=" + std::string(option(id).value);
  for (const char* value : values)
    EXPECT_THAT(refusal(id, value), AllOf(StartsWith("--" + std::string(option(id).name) + "="),
                                          HasSubstr(option_form)))
        << value;
}

TEST(SpankOptions, TableIsInTheOrderOfItsNames) {
  std::set<std::string> names;
  ASSERT_EQ(option_table().size(), kOptionCount);
  for (std::size_t i = 0; i < kOptionCount; ++i) {
    const Option& row = option_table()[i];
    EXPECT_EQ(static_cast<std::size_t>(row.id), i);
    EXPECT_THAT(row.name, StartsWith("elastic"));
    EXPECT_LE(std::string(row.name).size(), 75U);  // SPANK_OPTION_MAXLEN
    EXPECT_TRUE(names.insert(row.name).second);
    if (row.variable != nullptr) {
      EXPECT_THAT(row.variable, StartsWith("BELLOWS_ELASTIC"));
    }
  }
}

TEST(SpankOptions, ElasticTakesBounds) {
  EXPECT_EQ(parsed(OptionId::elastic, "1-8"), "1-8");
  EXPECT_EQ(parsed(OptionId::elastic, "4"), "4-4");
  EXPECT_EQ(parsed(OptionId::elastic, "2-16:2"), "2-16:2");
  EXPECT_EQ(parsed(OptionId::elastic, "002-0016:01"), "2-16");
  EXPECT_EQ(parsed(OptionId::elastic, "65536"), "65536-65536");
}

TEST(SpankOptions, ElasticRefusesWhatIsNoBounds) {
  expect_refused(OptionId::elastic, {"",
                                     "0",
                                     "0-4",
                                     "8-1",
                                     "1-8:0",
                                     "1-8:",
                                     "1-",
                                     "-8",
                                     "-",
                                     ":2",
                                     "1-8-9",
                                     "1:2:3",
                                     "1-8 ",
                                     " 1-8",
                                     "+1-8",
                                     "1,8",
                                     "one",
                                     "1-65537",
                                     "99999999999999999999",
                                     "1-8\n",
                                     "0x1-8",
                                     "1.5",
                                     "\xff\xfe"});
  EXPECT_THAT(refusal(OptionId::elastic, "8-1"), HasSubstr("MIN is more than MAX"));
  EXPECT_THAT(refusal(OptionId::elastic, nullptr), StartsWith("--elastic="));
}

TEST(SpankOptions, ModeIsOneOfThree) {
  for (const char* mode : {"turbo", "economic", "manual"})
    EXPECT_EQ(parsed(OptionId::mode, mode), mode);
  expect_refused(OptionId::mode, {"", "Turbo", "turbo ", "auto", "turbo,manual"});
}

TEST(SpankOptions, PolicyArgsAreNamesWithValues) {
  for (const char* good : {"gain=0.2", "gain=0.2,interval=10,a_b-c=x:y/z%@"})
    EXPECT_EQ(parsed(OptionId::policy_args, good), good);
  expect_refused(OptionId::policy_args,
                 {"", "gain", "=1", "gain=", "gain=1,", ",gain=1", "gain=1,,x=2", "gain=1,gain=2",
                  "Gain=1", "gain=a b", "gain=$(id)", "gain=1;x=2", "gain='1'", "g\nx=1"});
}

TEST(SpankOptions, GraceIsSeconds) {
  EXPECT_EQ(parsed(OptionId::grace, "0"), "0");
  EXPECT_EQ(parsed(OptionId::grace, "030"), "30");
  expect_refused(OptionId::grace, {"", "-1", "86401", "30s", "1e3"});
}

TEST(SpankOptions, CompanionsAreKeysWithValues) {
  EXPECT_EQ(parsed(OptionId::companions, "partition=spot,max=04"), "partition=spot,max=4");
  EXPECT_EQ(parsed(OptionId::companions, "constraint=[a|b]&c;qos=low,gres=gpu:a100:2"),
            "features=[a|b]&c;qos=low,gres=gpu:a100:2");
  EXPECT_EQ(parsed(OptionId::companions, "max=2,account=x"), "account=x,max=2");
  expect_refused(OptionId::companions,
                 {"", ";", "partition=spot;", "partition", "partition=", "partition=a b", "max=0",
                  "max=x", "nodes=3", "partition=a,partition=b", "features=a,constraint=b",
                  "partition=spot,max=1:partition=gpu", "gres=gpu:1,nvme", "qos=`id`"});
  EXPECT_THAT(
      refusal(OptionId::companions, "nodes=3"),
      HasSubstr("unknown key 'nodes' (known: partition, qos, features, gres, account, max)"));
}

TEST(SpankOptions, ResizeIsANumberOrNodes) {
  for (const char* good : {"6", "+2", "-2", "n1", "n1,n2", "n[1-4]", "n[1-3,7],m5", "a-b.c_d"})
    EXPECT_EQ(parsed(OptionId::resize, good), good);
  expect_refused(OptionId::resize,
                 {"", "0", "+0", "--2", "+-2", "1,2", "n1,", ",n1", "n[", "n[]", "n[1-]", "n[1-4",
                  "n]", "[1-4]", "n1 n2", "n1;id", "-w", "n[a]"});
}

TEST(SpankOptions, WaitHasADefault) {
  for (const char* none : {static_cast<const char*>(nullptr), "", "(null)"})
    EXPECT_EQ(parsed(OptionId::wait, none), "60");
  EXPECT_EQ(parsed(OptionId::wait, "0"), "0");
  expect_refused(OptionId::wait, {"-1", "86401", "x", "5 "});
}

TEST(SpankOptions, LongValuesAreRefusedAndShownShort) {
  const std::string longest = "a=" + std::string(kLongestValue - 2, 'x');
  EXPECT_EQ(parsed(OptionId::policy_args, longest.c_str()), longest);
  const std::string message = refusal(OptionId::policy_args, (longest + "x").c_str());
  EXPECT_THAT(message, HasSubstr("is longer than"));
  EXPECT_LT(message.size(), 300U);
  EXPECT_THAT(refusal(OptionId::elastic, "1\x1b[31m\r\n2"), HasSubstr("--elastic=1?[31m??2:"));
}

TEST(SpankOptions, TheLastOfTwoCounts) {
  GivenOptions given;
  given.set(OptionId::elastic, "1-2");
  given.set(OptionId::elastic, "1-8");
  EXPECT_EQ(given[OptionId::elastic], "1-8");
}

CommandLine line(std::vector<std::string> words, std::optional<std::size_t> end = std::nullopt) {
  return CommandLine(words, end);
}

TEST(SpankCommandLine, NodesAreFoundInAllForms) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"-N3", "job.sh"},
                                                {"-N", "3", "job.sh"},
                                                {"--nodes=3", "job.sh"},
                                                {"--nodes", "3"},
                                                {"-vN3"},
                                                {"-HN", "3"},
                                                {"-N1", "-N3"},
                                                {"-J", "-N7", "-N3"},
                                                {"--exclusive", "-N3"},
                                                {"-k", "-N3"},
                                                {"-W", "-N3"},
                                                {"--wait", "60", "-N3"}}) {
    const auto nodes = line(words).nodes();
    ASSERT_TRUE(nodes) << testing::PrintToString(words);
    EXPECT_EQ(nodes->min, 3) << testing::PrintToString(words);
    EXPECT_EQ(nodes->max, 3);
  }
}

TEST(SpankCommandLine, NothingIsReadBehindTheOptions) {
  EXPECT_FALSE(line({"job.sh", "-N3"}).nodes());
  EXPECT_FALSE(line({"--", "-N3"}).nodes());
  EXPECT_FALSE(line({"-v", "job.sh", "--elastic=1-2"}).describes_elastic_job());
  EXPECT_FALSE(line({"-J", "x", "-N3"}, 2).nodes());
  EXPECT_TRUE(line({"-J", "x", "-N3"}, 3).nodes());
  EXPECT_FALSE(line({}).nodes());
}

TEST(SpankCommandLine, RangesOfNodes) {
  const auto range = [](const char* text) {
    const auto nodes = parse_node_range(text);
    return nodes ? std::to_string(nodes->min) + ".." + std::to_string(nodes->max) : "none";
  };
  EXPECT_EQ(range("2-4"), "2..4");
  EXPECT_EQ(range("2-"), "2..2");
  EXPECT_EQ(range("1k"), "1024..1024");
  for (const char* bad : {"", "x", "4-2", "1,2", "2-4-6", "1-15:4", "-3", "9999999999", "1000000k"})
    EXPECT_EQ(range(bad), "none") << bad;
}

TEST(SpankCommandLine, OtherOptionsOfSlurm) {
  EXPECT_EQ(line({"-p", "a", "--part=b,c"}).partition(), "b,c");
  EXPECT_EQ(line({"--jobid=12"}).job(), "12");
  EXPECT_EQ(line({"--jobi", "12", "true"}).job(), "12");
  EXPECT_FALSE(line({"--job-name=12"}).job());
  EXPECT_EQ(line({"--no-kill"}).no_kill(), "");
  EXPECT_EQ(line({"-k", "off"}).no_kill(), "");  // its value must be in the same word
  EXPECT_EQ(line({"--no-kill=off"}).no_kill(), "off");
  EXPECT_EQ(line({"--het-group", "1"}).het_group(), "1");
}

TEST(SpankCommandLine, ElasticOptionsAreSeen) {
  EXPECT_TRUE(line({"--elastic=1-2"}).describes_elastic_job());
  EXPECT_TRUE(line({"-J", "x", "--elastic", "1-2"}).describes_elastic_job());
  EXPECT_TRUE(line({"--elastic-mode=turbo"}).describes_elastic_job());
  EXPECT_FALSE(line({"--elastic-resize=2", "--elastic-wait"}).describes_elastic_job());
}

/// The message of the check, or "fine".
std::string check(std::initializer_list<std::pair<OptionId, const char*>> options,
                  const Submission& submission = {}, const Arguments& arguments = {}) {
  GivenOptions given;
  for (const auto& [id, value] : options) given.set(id, value);
  try {
    check_submission(given, submission, arguments);
  } catch (const ValueError& error) {
    return error.what();
  }
  return "fine";
}

TEST(SpankChecks, OptionsOfAnElasticJobNeedElastic) {
  for (const OptionId id :
       {OptionId::mode, OptionId::policy_args, OptionId::grace, OptionId::companions}) {
    EXPECT_THAT(check({{id, "x"}}), HasSubstr("needs --elastic=MIN-MAX[:STEP]"));
    EXPECT_EQ(check({{id, "x"}, {OptionId::elastic, "1-2"}}), "fine");
  }
  EXPECT_EQ(check({}), "fine");
}

TEST(SpankChecks, NodesLieWithinTheBounds) {
  const auto nodes = [](int min, int max) {
    return Submission{.nodes = NodeRange{min, max}, .partitions = {}};
  };
  EXPECT_EQ(check({{OptionId::elastic, "2-4"}}, nodes(2, 4)), "fine");
  EXPECT_THAT(check({{OptionId::elastic, "2-4"}}, nodes(1, 1)),
              HasSubstr("--elastic=2-4: --nodes=1 is not within MIN and MAX"));
  EXPECT_THAT(check({{OptionId::elastic, "2-4"}}, nodes(2, 5)), HasSubstr("--nodes=2-5"));
}

TEST(SpankChecks, LimitsOfTheClusterAndOfPartitions) {
  Arguments arguments;
  arguments.max_nodes = 8;
  arguments.partition_max = {{"small", 2}, {"huge", 100}};
  const auto in = [](const char* partitions) {
    return Submission{.nodes = {}, .partitions = partitions};
  };
  EXPECT_THAT(check({{OptionId::elastic, "1-9"}}, {}, arguments), HasSubstr("cluster, 8 nodes"));
  EXPECT_THAT(check({{OptionId::elastic, "1-3"}}, in("small"), arguments),
              HasSubstr("partition small, 2 nodes"));
  EXPECT_EQ(check({{OptionId::elastic, "1-2"}}, in("small"), arguments), "fine");
  EXPECT_EQ(check({{OptionId::elastic, "1-8"}}, in("small,huge"), arguments), "fine");
  EXPECT_EQ(check({{OptionId::elastic, "1-8"}}, in("other"), arguments), "fine");
}

TEST(SpankChecks, RequestsAreForAJobThatThereIs) {
  const Submission step{.makes_job = false, .given_here = false, .nodes = {}, .partitions = {}};
  EXPECT_EQ(check({{OptionId::resize, "3"}, {OptionId::wait, "5"}}, step), "fine");
  EXPECT_THAT(check({{OptionId::resize, "3"}}), HasSubstr("--elastic-resize=3: which job?"));
  EXPECT_THAT(check({{OptionId::wait, "5"}}, step), HasSubstr("--elastic-wait says"));
  // Within an elastic job its options are there as well.
  EXPECT_EQ(check({{OptionId::resize, "3"}, {OptionId::elastic, "1-2"}}, step), "fine");
  Submission given_with = step;
  given_with.given_here = true;
  EXPECT_THAT(check({{OptionId::resize, "3"}, {OptionId::elastic, "1-2"}}, given_with),
              HasSubstr("use one of them"));
  EXPECT_THAT(check({{OptionId::elastic, "1-2"}}, given_with),
              HasSubstr("use srun --elastic-resize"));
}

TEST(SpankChecks, AStartedJobIsKeptWithinItsPartitionsLimit) {
  Arguments arguments;
  arguments.partition_max = {{"small", 3}};
  const auto admitted = [&](const char* bounds, const char* partition, std::optional<int> nodes) {
    return admit(parse_bounds(bounds), StartedJob{nodes, partition}, arguments);
  };
  EXPECT_EQ(admitted("1-8", "main", 2).bounds->text(), "1-8");
  EXPECT_EQ(admitted("1-8", "main", 2).note, "");
  EXPECT_EQ(admitted("1-8:2", "small", 2).bounds->text(), "1-3:2");
  EXPECT_THAT(admitted("1-8", "small", 2).note, HasSubstr("now 1-3"));
  EXPECT_FALSE(admitted("4-8", "small", 4).bounds);
  EXPECT_THAT(admitted("4-8", "small", 4).note, HasSubstr("fewer than MIN"));
  EXPECT_THAT(admitted("2-8", "main", 1).note, HasSubstr("begins with 1 nodes"));
  EXPECT_EQ(admitted("2-8", "main", std::nullopt).note, "");
}

/// The variables that a job hands on.
class SpankEnvironment : public testing::Test {
 protected:
  static void set(const std::string& name, const char* value) { setenv(name.c_str(), value, 1); }
  static std::string get(const std::string& name) {
    const char* const value = getenv(name.c_str());
    return value == nullptr ? "none" : value;
  }
  ~SpankEnvironment() override {
    for (const Option& row : option_table()) {
      unsetenv(inherited_variable(row).c_str());
      if (row.variable != nullptr) unsetenv(row.variable);
    }
    for (const char* name : {"SBATCH_NO_KILL", "SALLOC_NO_KILL", kNoKillMark}) unsetenv(name);
  }
};

TEST_F(SpankEnvironment, InheritedVariablesAreNamedAsSlurmNamesThem) {
  EXPECT_EQ(inherited_variable(option(OptionId::policy_args)),
            "SLURM_SPANK__SLURM_SPANK_OPTION_bellows_elastic_policy_args");
}

TEST_F(SpankEnvironment, AJobWithinAnElasticJobIsNotElastic) {
  set(inherited_variable(option(OptionId::elastic)), "1-8");
  set("_SLURM_SPANK_OPTION_bellows_elastic", "1-8");
  set("BELLOWS_ELASTIC", "1-8");
  set("BELLOWS_ELASTIC_MODE", "manual");
  forget_surrounding_job();
  EXPECT_EQ(get(inherited_variable(option(OptionId::elastic))), "none");
  EXPECT_EQ(get("_SLURM_SPANK_OPTION_bellows_elastic"), "none");
  EXPECT_EQ(get("BELLOWS_ELASTIC"), "none");
  EXPECT_EQ(get("BELLOWS_ELASTIC_MODE"), "none");
}

TEST_F(SpankEnvironment, WhatTheUserSetStays) {
  set("BELLOWS_ELASTIC", "1-8");
  set("SBATCH_NO_KILL", "off");
  set_no_kill("sbatch");
  forget_surrounding_job();
  EXPECT_EQ(get("BELLOWS_ELASTIC"), "1-8");
  EXPECT_EQ(get("SBATCH_NO_KILL"), "off");
  EXPECT_EQ(get(kNoKillMark), "none");
}

TEST_F(SpankEnvironment, NoKillIsSetForOneCommandAndForgotten) {
  set_no_kill("salloc");
  EXPECT_EQ(get("SALLOC_NO_KILL"), "set");
  EXPECT_EQ(get("SBATCH_NO_KILL"), "none");
  EXPECT_EQ(get(kNoKillMark), "SALLOC_NO_KILL");
  forget_surrounding_job();
  EXPECT_EQ(get("SALLOC_NO_KILL"), "none");
}

TEST_F(SpankEnvironment, AMarkIsNoWayToUnsetAnything) {
  set(kNoKillMark, "PATH");
  const std::string path = get("PATH");
  forget_surrounding_job();
  EXPECT_EQ(get("PATH"), path);
}

TEST_F(SpankEnvironment, ProgramsThatAreStartedSeeNoOptions) {
  set(inherited_variable(option(OptionId::resize)), "3");
  for (const std::string& entry : environment_without_options())
    EXPECT_THAT(entry, testing::Not(HasSubstr("_OPTION_bellows_")));
}

}  // namespace
}  // namespace bellows::spank
