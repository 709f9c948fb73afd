// SPDX-License-Identifier: Apache-2.0
// bellows top: which jobs it finds, what it shows of those that do not answer, and what fits.
#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "scheduler/command/control_command.h"
#include "scheduler/live/live_text.h"
#include "tests/unit/control_fixture.h"

namespace bellows::test {
namespace {

namespace json = boost::json;
using scheduler::live_text;
using scheduler::LiveJob;
using scheduler::LiveJobs;
using scheduler::LiveRound;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Reply = ControlServer::Reply;

Message status_of(const std::string& job, int ranks, const char* state = "steady") {
  Message status("status");
  status.head = {{"job", job}, {"type", "status"}, {"state", state}, {"epoch", 2},
                 {"min", 1},   {"max", 4},         {"step", 120},    {"samples_per_second", 99.5}};
  status.head["batch"] = 64;
  status.head["learning_rate"] = 0.125;
  status.head["efficiency"] = 0.75;
  json::array list;
  for (int i = 0; i < ranks; ++i) list.push_back(json::object{{"rank", i}});
  status.head["ranks"] = list;
  status.head["nodes"] = json::array{json::object{{"name", "n1"}}};
  status.head["events"] =
      json::array{json::object{{"time", 1000}, {"kind", "start"}, {"text", "first"}},
                  json::object{{"time", 2000}, {"kind", "join"}, {"text", "one \x1b[1m rank"}}};
  return status;
}

auto answering(const std::string& job, int ranks) {
  return [=](const Message&, const Reply& reply) { reply(status_of(job, ranks)); };
}

std::string shown(const LiveRound& round) {
  std::string text;
  for (const LiveJob& job : round.jobs) {
    text += job.job + " " + job.state + " " +
            (job.ranks ? std::to_string(*job.ranks) : std::string("-")) + "; ";
  }
  return text;
}

Message daemon_jobs() {
  Message answer("jobs");
  const auto entry = [](int job, std::uint32_t user, int ranks) {
    return json::object{{"job", job},
                        {"user", user},
                        {"held", json::array{"n1", "n2"}},
                        {"ranks", ranks},
                        {"min", 1},
                        {"max", 4},
                        {"training_step", 7},
                        {"samples_per_second", 5.0},
                        {"live", json::object{{"state", "changing"}, {"batch", 8}}}};
  };
  answer.head["jobs"] =
      json::array{entry(11, geteuid(), 3), entry(12, geteuid() + 1, 9), entry(4711, geteuid(), 5)};
  return answer;
}

// ---- which jobs ---------------------------------------------------------------------------------

TEST_F(ControlTest, TopFindsAllJobsHereAndThoseThatBellowsdKnows) {
  const Launcher one("local-1", answering("local-1", 2));
  const Launcher two("4711.80", answering("4711.80", 3));
  LiveJobs here({});
  EXPECT_EQ(shown(here.look()), "4711.80 steady 3; local-1 steady 2; ");
  LiveJobs cluster({.ask_daemon = [](auto) { return daemon_jobs(); }});
  EXPECT_EQ(shown(cluster.look()), "11 changing 3; 4711.80 steady 3; local-1 steady 2; ");
  LiveJobs all({.everybody = true, .ask_daemon = [](auto) { return daemon_jobs(); }});
  EXPECT_EQ(shown(all.look()),
            "11 changing 3; 12 changing 9; 4711.80 steady 3; local-1 steady 2; ");
  LiveJobs named({.jobs = {"12", "4711"}, .ask_daemon = [](auto) { return daemon_jobs(); }});
  EXPECT_EQ(shown(named.look()), "12 changing 9; 4711.80 steady 3; ");
  LiveJobs socket({.sockets = {socket_of("local-1")}});
  EXPECT_EQ(shown(socket.look()), "local-1 steady 2; ");
}

TEST_F(ControlTest, TopGoesOnWithoutThoseWhoDoNotAnswer) {
  const Launcher good("a", answering("a", 2));
  const Launcher silent("b", [](const Message&, const Reply&) {});
  const Launcher strange("c", [](const Message&, const Reply& reply) { reply(done("x")); });
  LiveJobs jobs({.limit = std::chrono::milliseconds(300)});
  const LiveRound round = jobs.look();
  EXPECT_EQ(shown(round), "a steady 2; b no answer -; c no answer -; ");
  EXPECT_TRUE(round.missing);
  LiveJobs away({.limit = std::chrono::milliseconds(300), .ask_daemon = [](auto) -> Message {
                   throw std::runtime_error("bellowsd at x:1: refused");
                 }});
  EXPECT_THAT(away.look().notes, ElementsAre("bellowsd at x:1: refused"));
}

TEST_F(ControlTest, TopShowsForAWhileWhatHasEnded) {
  LiveJobs jobs({.limit = std::chrono::milliseconds(500)});
  auto one = std::make_unique<Launcher>("a", answering("a", 2));
  EXPECT_EQ(shown(jobs.look()), "a steady 2; ");
  one.reset();
  LiveRound round = jobs.look();
  EXPECT_EQ(shown(round), "a ended 2; ");
  EXPECT_EQ(round.jobs[0].step, 120);
  // Its bellows-run was killed: the socket is there, and nobody listens.
  auto two = std::make_unique<Launcher>("b", answering("b", 1));
  fs::create_hard_link(socket_of("b"), folder() + "/kept");
  jobs.look();
  two.reset();
  fs::rename(folder() + "/kept", socket_of("b"));
  round = jobs.look();
  EXPECT_EQ(shown(round), "a ended 2; b gone 1; ");
  EXPECT_THAT(round.jobs[1].problem, HasSubstr("gone"));
  two = std::make_unique<Launcher>("b", answering("b", 3));
  EXPECT_EQ(shown(jobs.look()), "a ended 2; b steady 3; ");
}

TEST_F(ControlTest, TopKeepsWhatBellowsdHasSaidWhileItIsAway) {
  Message answer = daemon_jobs();
  bool away = false;
  LiveJobs jobs({.ask_daemon = [&](auto) {
    if (away) throw std::runtime_error("bellowsd is away");
    return answer;
  }});
  EXPECT_EQ(shown(jobs.look()), "11 changing 3; 4711 changing 5; ");
  away = true;
  EXPECT_EQ(shown(jobs.look()), "11 no answer 3; 4711 no answer 5; ");
  away = false;
  answer.head["jobs"] = json::array{answer.head["jobs"].as_array()[0]};
  EXPECT_EQ(shown(jobs.look()), "11 changing 3; 4711 ended 5; ");
}

TEST_F(ControlTest, TopNamesAJobThatNobodyKnows) {
  LiveJobs jobs({.jobs = {"77"}});
  const LiveRound round = jobs.look();
  EXPECT_TRUE(round.missing);
  EXPECT_THAT(round.notes, ElementsAre(HasSubstr("no job 77")));
}

// ---- what is shown ------------------------------------------------------------------------------

LiveRound example() {
  LiveRound round;
  round.time = 2010;
  round.jobs = {
      scheduler::live_job_from_status(status_of("4711.80", 3).head),
      scheduler::live_job_from_daemon(daemon_jobs().head["jobs"].as_array()[0].as_object())};
  return round;
}

TEST(LiveText, IsATableForPeople) {
  setenv("TZ", "UTC", 1);
  EXPECT_THAT(
      live_text(example(), {}),
      ElementsAre("00:33:30  2 jobs, 3 nodes, 6 ranks",
                  "JOB      NODES  RANKS  STATE     STEP  SAMPLES/S  EFF  BATCH     LR  LAST "
                  "EVENT",
                  "4711.80      1      3  steady     120       99.5  75%     64  0.125  join "
                  "10s: one \\x1b[1m rank",
                  "11           2      3  changing     7        5.0    -      8      -  -"));
}

TEST(LiveText, HasTheBestSizeWhereAJobSaysIt) {
  Message status = status_of("4711.80", 3);
  status.head["hints"] = json::object{{"best_nodes", 4}, {"economic_nodes", 2}};
  json::object entry = daemon_jobs().head["jobs"].as_array()[0].as_object();
  entry["hints"] = json::object{{"best_nodes", 3}, {"economic_nodes", 3}};
  LiveRound round = example();
  round.jobs.push_back(scheduler::live_job_from_status(status.head));
  round.jobs.push_back(scheduler::live_job_from_daemon(entry));
  const auto lines = live_text(round, {});
  EXPECT_THAT(lines[1], HasSubstr("LR  BEST       LAST EVENT"));
  EXPECT_THAT(lines[2], HasSubstr("0.125  -          join"));
  EXPECT_THAT(lines[4], HasSubstr("0.125  4 (2 pay)  join"));
  EXPECT_THAT(lines[5], HasSubstr("-  3          -"));
  EXPECT_EQ(to_json(round.jobs[2]).at("best_nodes"), 4);
  EXPECT_THAT(live_text(round, {90, 24})[1], testing::Not(HasSubstr("BEST")));
}

TEST(LiveText, FitsAnyTerminal) {
  LiveRound round = example();
  round.notes = {"bellowsd: ärgerlich\x1b[2J, and more that is too long for any narrow terminal"};
  round.jobs[0].event_text = "äöü €uro " + std::string(200, 'x');
  const auto characters = [](const std::string& line) {
    return std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
  };
  for (std::size_t columns = 1; columns < 300; ++columns) {
    for (const std::string& line : live_text(round, {columns, 24})) {
      EXPECT_LE(characters(line), static_cast<std::ptrdiff_t>(columns)) << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
    }
  }
  EXPECT_THAT(live_text(round, {40, 24})[3], HasSubstr("4711.80"));
  EXPECT_THAT(live_text(round, {40, 24})[3], HasSubstr("steady"));
  for (std::size_t lines = 1; lines < 6; ++lines) {
    EXPECT_LE(live_text(round, {80, lines}).size(), lines);
  }
  EXPECT_EQ(live_text(round, {80, 4}).back(), "(2 more)");
}

TEST(LiveText, ShowsWhatIsStrangeAsUnknown) {
  for (const char* strange : {"null", "{}", "[[],3,{}]", "\"x\"", "-1e300", "1e300", "true"}) {
    for (const auto& member : status_of("a", 1).head) {
      Message status = status_of("a", 1);
      status.head[member.key()] = json::parse(strange);
      LiveRound round;
      round.jobs = {scheduler::live_job_from_status(status.head)};
      EXPECT_EQ(live_text(round, {}).size(), 3U);
    }
    const json::object good = daemon_jobs().head["jobs"].as_array()[0].as_object();
    for (const auto& member : good) {
      json::object entry = good;
      entry[member.key()] = json::parse(strange);
      LiveRound round;
      round.jobs = {scheduler::live_job_from_daemon(entry)};
      EXPECT_EQ(live_text(round, {}).size(), 3U);
    }
  }
}

// ---- the command --------------------------------------------------------------------------------

struct Ended {
  int code = -1;
  std::string out, err;
};
Ended bellows(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const int code = scheduler::control_command(arguments, out, err);
  return {code, out.str(), err.str()};
}

TEST_F(ControlTest, TopOnceIsOneTableOrOneLine) {
  setenv("BELLOWSD_CONFIG", "/nowhere", 1);
  const Launcher one("a", answering("a", 2));
  const Ended table = bellows({"top", "--once"});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, HasSubstr("\na        1      2  steady"));
  const Ended line = bellows({"top", "--once", "--json", "--job=a"});
  const json::value round = json::parse(line.out);
  EXPECT_EQ(round.at("jobs").at(0).at("ranks"), 2);
  EXPECT_EQ(round.at("jobs").at(0).at("event").at("kind"), "join");
  EXPECT_EQ(bellows({"top", "--once", "--job=b"}).code, 3);
  EXPECT_EQ(bellows({"top", "--once", "--socket=/nowhere.sock"}).code, 3);
}

TEST(TopCommandLine, SaysWhatIsWrong) {
  for (const auto& [arguments, why] :
       std::initializer_list<std::pair<std::vector<std::string>, const char*>>{
           {{"top", "--interval=0"}, "from 0.2 to 3600"},
           {{"top", "--interval", "x"}, "from 0.2 to 3600"},
           {{"top", "--job=../x"}, "names"},
           {{"top", "--all", "--job=a"}, "--all"},
           {{"top", "more"}, "unexpected"},
           {{"picture"}, "event-file"},
           {{"picture", "--job=1", "x"}, "no --job"},
           {{"picture", "x", "--json", "-o", "y"}, "--json"}}) {
    const Ended ended = bellows(arguments);
    EXPECT_EQ(ended.code, 2);
    EXPECT_THAT(ended.err, HasSubstr(why));
  }
}

}  // namespace
}  // namespace bellows::test
