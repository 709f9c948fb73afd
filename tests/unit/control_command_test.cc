// SPDX-License-Identifier: Apache-2.0
// bellows as its user sees it: what it asks for, what it prints, how it ends.
#include "scheduler/command/control_command.h"

#include <gmock/gmock.h>

#include <sstream>

#include "scheduler/command/command_line.h"
#include "scheduler/command/status_text.h"
#include "tests/unit/control_fixture.h"

namespace bellows::test {
namespace {

namespace json = boost::json;
using scheduler::Command;
using scheduler::parse_command;
using scheduler::UsageError;
using testing::HasSubstr;
using testing::IsEmpty;
using Arguments = std::vector<std::string>;
using Reply = ControlServer::Reply;

struct Ended {
  int code = -1;
  std::string out, err;
};

Ended bellows(const Arguments& arguments) {
  std::ostringstream out, err;
  const int code = scheduler::control_command(arguments, out, err);
  return {code, out.str(), err.str()};
}

// The request without its type, and the seconds to wait.
std::string asked_by(const Arguments& arguments) {
  const Command command = parse_command(arguments);
  json::object members;
  for (const auto& [name, value] : command.request.head) {
    if (name != "type") members[name] = value;
  }
  return std::string(command.request.type()) + " " + json::serialize(members) + " " +
         std::to_string(command.wait.count());
}

std::string complaint(const Arguments& arguments) {
  try {
    return "asks: " + asked_by(arguments);
  } catch (const UsageError& wrong) {
    return wrong.what();
  }
}

TEST(ControlCommandLine, SaysWhatToAsk) {
  EXPECT_EQ(asked_by({"status"}), "status {} 0");
  EXPECT_EQ(asked_by({"resize", "4"}), R"(resize {"ranks":4,"wait":true} 60000)");
  EXPECT_EQ(asked_by({"resize", "--wait", "4"}), R"(resize {"ranks":4,"wait":true} 60000)");
  EXPECT_EQ(asked_by({"resize", "+2", "--wait"}), R"(resize {"delta":2,"wait":true} 60000)");
  EXPECT_EQ(asked_by({"resize", "--wait=1.5", "-2"}), R"(resize {"delta":-2,"wait":true} 1500)");
  EXPECT_EQ(asked_by({"resize", "4", "--wait=0"}), R"(resize {"ranks":4,"wait":false} 0)");
  EXPECT_EQ(asked_by({"resize", "+2", "--on", "n1,n2"}),
            R"(resize {"delta":2,"nodes":["n1","n2"],"wait":true} 60000)");
  EXPECT_EQ(asked_by({"leave", "--ranks", "1,3"}), R"(leave {"ranks":[1,3],"wait":true} 60000)");
  EXPECT_EQ(asked_by({"leave", "--nodes=a-1,b.c"}),
            R"(leave {"nodes":["a-1","b.c"],"wait":true} 60000)");
}

TEST(ControlCommandLine, KnowsWhichEventsAreMeant) {
  const Command command = parse_command({"--job=7", "events", "--follow", "--since=@5", "--json"});
  EXPECT_EQ(command.what, Command::What::events);
  EXPECT_TRUE(command.follow && command.json);
  EXPECT_EQ(command.since, 5);
  EXPECT_EQ(parse_command({"events", "--file", "e"}).file, "e");
  EXPECT_THAT(complaint({"events", "--file=e", "--follow"}), HasSubstr("--file reads what a job"));
  EXPECT_THAT(complaint({"events", "--since=soon"}), HasSubstr("--since=soon: must be"));
  EXPECT_THAT(complaint({"status", "--follow"}), HasSubstr("--follow"));
}

TEST(ControlCommandLine, AsksTheBrokerForNodes) {
  EXPECT_EQ(asked_by({"resize", "--nodes=+1"}),
            R"(resize-nodes {"nodes":"+1","wait":true,"limit":6E1} 60000)");
  EXPECT_EQ(asked_by({"resize", "--nodes", "-2", "--wait=0"}),
            R"(resize-nodes {"nodes":"-2","wait":false,"limit":0E0} 0)");
  EXPECT_EQ(asked_by({"resize", "--nodes=n1,n[3-4]", "--component=1", "--wait=1.5"}),
            R"(resize-nodes {"nodes":"n1,n[3-4]","component":1,"wait":true,"limit":1.5E0} 1500)");
  EXPECT_TRUE(parse_command({"resize", "--nodes=4"}).to_broker);
  EXPECT_FALSE(parse_command({"resize", "4"}).to_broker);
}

TEST(ControlCommandLine, TakesTheJobBeforeOrBehindTheCommand) {
  EXPECT_EQ(parse_command({"--job", "4711", "resize", "-1"}).job, "4711");
  EXPECT_EQ(parse_command({"--job=4711.5", "status"}).job, "4711.5");
  EXPECT_EQ(parse_command({"status", "--job", "local-3", "--json"}).job, "local-3");
  EXPECT_EQ(parse_command({"--socket", "status", "status"}).socket, "status");
  EXPECT_TRUE(parse_command({"status", "--json"}).json);
  EXPECT_FALSE(parse_command({"status"}).job);
}

TEST(ControlCommandLine, RefusesWrongUseAndSaysWhatIsAllowed) {
  const std::vector<std::pair<Arguments, std::string>> wrong = {
      {{}, "no command: must be status, events, top, resize, leave, jobs, picture or report"},
      {{"resize", "+1", "--operator"}, "--operator goes with --nodes"},
      {{"resize", "--nodes=+1", "--operator"}, "--operator needs the number of a Slurm job"},
      {{"grow"},
       "unknown command 'grow': must be status, events, top, resize, leave, jobs, picture or "
       "report"},
      {{"--json"}, "unrecognised option '--json'"},
      {{"--jo", "1", "status"}, "unknown command '1'"},
      {{"status", "--frobnicate"}, "unrecognised option '--frobnicate'"},
      {{"status", "-v"}, "unknown option -v"},
      {{"status", "-1"}, "unexpected argument '-1'"},
      {{"status", "all"}, "unexpected argument 'all'"},
      {{"status", "--wait"}, "unrecognised option '--wait'"},
      {{"status", "--json=1"}, "--json"},
      {{"status", "--job"}, "--job"},
      {{"status", "--job", "1", "--job", "2"}, "--job"},
      {{"status", "--job", "../x"}, "--job=../x: must be a job's name"},
      {{"status", "--job", "1", "--socket", "x"}, "give --job or --socket, not both"},
      {{"resize"}, "resize takes one number, N, +N or -N"},
      {{"resize", "1", "2"}, "resize takes one number"},
      {{"resize", "1", "--wait", "2"}, "--wait its value as --wait=SECONDS"},
      {{"leave", "--ranks", "1", "--json"}, "unrecognised option '--json'"},
      {{"resize", "4", "--nodes=4"}, "resize takes either a number of ranks"},
      {{"resize", "--nodes=4", "--on", "n1"}, "resize takes either a number of ranks"},
      {{"resize", "--nodes=0"}, "--nodes: '0' is not a number from 1 to 65536"},
      {{"resize", "--nodes=+"}, "--nodes: '+': must be N, +N or -N nodes"},
      {{"resize", "--nodes=n[1-"}, "its brackets do not match"},
      {{"resize", "--nodes=n1;reboot"}, "is no name of a node"},
      {{"resize", "+1", "--component=1"}, "--component goes with --nodes"},
      {{"resize", "--nodes=+1", "--component=-1"}, "--component=-1: must be from 0"},
      {{"resize", "1", "--wait=-1"}, "--wait=-1: must be from 0 (do not wait) to 86400 seconds"},
      {{"resize", "1", "--wait=nan"}, "must be from 0"},
      {{"resize", "1", "--wait=1e9"}, "must be from 0"},
      {{"resize", "1", "--wait=5s"}, "must be from 0"},
      {{"resize", "-2", "--on", "n1"}, "--on says where to grow, and resize -2 shrinks"},
      {{"resize", "2", "--on", "n1,,n2"}, "--on=n1,,n2: must be names of nodes"},
      {{"resize", "2", "--on", "n[1-2]"}, "must be names of nodes"},
      {{"resize", "2", "--on="}, "--on"},
      {{"resize", "2", "--on", "n1,n1"}, "names n1 twice"},
      {{"leave"}, "leave takes either --ranks=R,… or --nodes=NODE,…"},
      {{"leave", "--ranks", "1", "--nodes", "a"}, "leave takes either"},
      {{"leave", "1"}, "unexpected argument '1'"},
      {{"leave", "--ranks", "1,1"}, "names 1 twice"},
      {{"leave", "--nodes", "a b"}, "--nodes=a b: must be names of nodes"},
  };
  for (const auto& [arguments, expected] : wrong) {
    EXPECT_THAT(complaint(arguments), HasSubstr(expected));
  }
  for (const char* size : {"0", "+0", "-0", "+x", "x", "", "+", "-", "--", "1.5", "++1", "+-1",
                           "-+1", "1x", " 1", "100001", "99999999999999999999"}) {
    EXPECT_THAT(complaint({"resize", size}),
                testing::AnyOf(HasSubstr("must be N, +N or -N ranks, N from 1 to 100000"),
                               HasSubstr("unknown option"), HasSubstr("resize takes one number")))
        << size;
  }
  for (const char* ranks : {"1,", ",1", "-1", "1-3", "x", "100000"}) {
    EXPECT_THAT(complaint({"leave", "--ranks=" + std::string(ranks)}),
                HasSubstr("must be ranks (0, 1, …)"))
        << ranks;
  }
}

TEST(ControlCommandLine, HelpAndVersionNeedNoJob) {
  for (const Arguments& arguments : {Arguments{"--help"}, Arguments{"-h"},
                                     Arguments{"resize", "--help"}, Arguments{"leave", "-h"}}) {
    const Ended ended = bellows(arguments);
    EXPECT_EQ(ended.code, 0);
    EXPECT_THAT(ended.out, HasSubstr("usage: bellows"));
  }
  EXPECT_THAT(bellows({"--version"}).out, testing::StartsWith("bellows "));
}

// ---- with a job ---------------------------------------------------------------------------------

Message example_status() {
  Message status("status");
  status.head = json::parse(R"({"type":"status","job":"4711","epoch":3,"state":"steady","min":1,
    "max":8,"step":120,"samples_per_second":812.25,
    "ranks":[{"rank":0,"member":1,"node":"n1","pid":100,"state":"running","step":120,"seconds":61},
             {"rank":-1,"member":12,"node":"n22","pid":20000,"state":"joining","step":0,"seconds":0.5}],
    "nodes":[{"name":"n1","ranks":1},{"name":"n22","ranks":1}],
    "events":[{"time":0.5,"kind":"join","text":"one \u001b[1m rank","seconds":0.25}]})")
                    .as_object();
  return status;
}

TEST_F(ControlTest, StatusIsATableForPeople) {
  const Launcher launcher("4711",
                          [](const Message&, const Reply& reply) { reply(example_status()); });
  setenv("TZ", "UTC", 1);
  const Ended ended = bellows({"status"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.out, R"(job 4711: steady, epoch 3, 2 ranks (1 to 8), step 120, 812 samples/s

RANK  MEMBER  NODE    PID  STATE    STEP     AGE
   0       1  n1      100  running   120    1:01
   -      12  n22   20000  joining     0  0.50 s

NODE  RANKS
n1        1
n22       1

TIME                 CHANGE    TOOK  WHAT
1970-01-01 00:00:00  join    0.25 s  one \x1b[1m rank
)");
}

TEST_F(ControlTest, StatusIsJsonForPrograms) {
  const Launcher launcher("4711",
                          [](const Message&, const Reply& reply) { reply(example_status()); });
  json::object expected = example_status().head;
  expected.erase("type");
  EXPECT_EQ(json::parse(bellows({"--job", "4711", "status", "--json"}).out), expected);
}

TEST(ControlStatusText, MembersThatAreMissingOrStrangeAreLeftOut) {
  EXPECT_EQ(scheduler::status_text(Message("status")),
            "job -: -, epoch -, 0 ranks (- to -), step -, - samples/s\n");
  for (const char* strange : {"null", "{}", "[[],3,{}]", "\"x\"", "-1e300", "1e300", "true"}) {
    for (const auto& member : example_status().head) {
      Message status = example_status();
      status.head[member.key()] = json::parse(strange);
      EXPECT_THAT(scheduler::status_text(status), HasSubstr("epoch"));
    }
    for (const char* list : {"ranks", "nodes", "events"}) {
      json::object item = example_status().head[list].as_array()[0].as_object();
      for (const auto& member : json::object(item)) {
        Message status = example_status();
        status.head[list].as_array()[0].as_object()[member.key()] = json::parse(strange);
        EXPECT_THAT(scheduler::status_text(status), HasSubstr("epoch"));
      }
    }
  }
}

TEST(ControlStatusText, TellsWhatTheTrainingSaysOfItsSize) {
  Message status("status");
  status.head["hints"] = json::parse(R"({"best_nodes":4,"best_ranks":8,"economic_nodes":1,
    "economic_ranks":2,"goodput":812.4,"gain_of_more":0.125,"loss_of_less":0.3})");
  EXPECT_THAT(scheduler::status_text(status),
              HasSubstr("\ndoes best with 4 nodes (8 ranks); 1 node (2 ranks) pays; predicted: 812 "
                        "samples/s, +12% with a node more, -30% with one less\n"));
  status.head["hints"].as_object().erase("gain_of_more");
  status.head["hints"].as_object()["loss_of_less"] = -0.05;
  EXPECT_THAT(scheduler::status_text(status), HasSubstr(": 812 samples/s, +5% with one less\n"));
  for (const char* strange : {"null", "{}", "[[],3,{}]", "\"x\"", "-1e300", "1e300", "true"}) {
    for (const auto& member : json::object(status.head["hints"].as_object())) {
      Message other = status;
      other.head["hints"].as_object()[member.key()] = json::parse(strange);
      EXPECT_THAT(scheduler::status_text(other), HasSubstr("predicted"));
    }
  }
}

TEST(ControlStatusText, ShowsTheBestSizeOfEachJobOfBellowsd) {
  Message jobs("jobs");
  jobs.head["jobs"] = json::parse(R"([{"job":1,"hints":{"best_nodes":4,"economic_nodes":2}},
    {"job":2,"hints":{"best_nodes":3,"economic_nodes":3}},{"job":3}])");
  const std::string text = scheduler::jobs_text(jobs);
  EXPECT_THAT(text, HasSubstr("0.0  4 (2 pay)"));
  EXPECT_THAT(text, HasSubstr("0.0  3 "));
  EXPECT_THAT(text, HasSubstr("0.0  - "));
}

TEST_F(ControlTest, GrantedIsZeroAndRefusedIsOne) {
  const Launcher launcher("1", [](const Message& request, const Reply& reply) {
    if (request.head.contains("delta")) {
      reply(done("the world has " + std::to_string(4 + request.number("delta")) + " ranks"));
    } else {
      throw std::runtime_error("--elastic 1-4 allows at most 4 ranks");
    }
  });
  Ended ended = bellows({"resize", "-1"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "the world has 3 ranks\n");
  ended = bellows({"resize", "9"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err, "bellows: --elastic 1-4 allows at most 4 ranks\n");
}

TEST_F(ControlTest, WrongUseIsTwo) {
  EXPECT_EQ(bellows({"resize", "0"}).code, 2);
  EXPECT_THAT(bellows({"resize", "0"}).err, HasSubstr("(see bellows --help)"));
  const auto ok = [](const Message&, const Reply& reply) { reply(done("ok")); };
  const Launcher one("1", ok), two("2", ok);
  const Ended ended = bellows({"resize", "1"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.err, "bellows: there are several jobs: choose one with --job (1, 2)\n");
  EXPECT_EQ(bellows({"--socket", two.path(), "resize", "1"}).code, 0);
}

TEST_F(ControlTest, NoJobOrNoAnswerIsThree) {
  EXPECT_THAT(bellows({"status"}).err, HasSubstr("no bellows-run of yours was started on"));
  EXPECT_EQ(bellows({"status"}).code, 3);
  EXPECT_EQ(bellows({"--job", "7", "leave", "--ranks", "1"}).code, 3);
  EXPECT_EQ(bellows({"--socket", "/nowhere", "status"}).code, 3);
  EXPECT_EQ(bellows({"--socket", std::string(200, 'x'), "status"}).code, 3);
  chmod(folder().c_str(), 0755);
  EXPECT_THAT(bellows({"status"}).err, HasSubstr("chmod 700 it"));
  chmod(folder().c_str(), 0700);
  const Launcher odd("1", [](const Message&, const Reply& reply) { reply(Message("hum")); });
  const Ended ended = bellows({"status"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_EQ(ended.err, "bellows: bellows-run gave an answer that is none: 'hum'\n");
}

TEST_F(ControlTest, AJobThatEndsMeanwhileRefuses) {
  std::atomic<int> asked = 0;
  Launcher launcher("1", [&](const Message&, const Reply&) { ++asked; });
  auto waiting = std::async(std::launch::async, [] { return bellows({"resize", "2"}); });
  while (asked == 0) std::this_thread::yield();
  launcher.close();
  const Ended ended = waiting.get();
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.err, "bellows: the job is ending\n");
}

TEST_F(ControlTest, AChangeThatIsNotCompleteInTimeIsOneWhileTheLauncherAnswers) {
  std::vector<Reply> open;
  const Launcher launcher("1", [&](const Message& request, const Reply& reply) {
    if (request.type() != "status") {
      open.push_back(reply);
      return;
    }
    Message status = example_status();
    status.head["state"] = "changing";
    reply(status);
  });
  const Ended ended = bellows({"resize", "2", "--wait=0.2"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("has not answered within 0.2 s"));
  EXPECT_THAT(ended.err, HasSubstr("the job is changing, and the change may still come"));
}

TEST_F(ControlTest, OutputThatCannotBeWrittenIsAFailure) {
  std::ostringstream err;
  std::ostream closed(nullptr);
  EXPECT_EQ(scheduler::control_command({"--help"}, closed, err), 1);
  EXPECT_EQ(err.str(), "bellows: cannot write the output\n");
}

}  // namespace
}  // namespace bellows::test
