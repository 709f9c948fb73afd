// SPDX-License-Identifier: Apache-2.0
// The events of a job: kept by bellows-run in memory and in a file, and shown by bellows.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "mpi_elastic/coordinator/event_log.h"
#include "scheduler/command/control_command.h"
#include "scheduler/command/event_file.h"
#include "scheduler/command/since.h"
#include "tests/unit/control_fixture.h"

namespace bellows::test {
namespace {

namespace json = boost::json;
using elastic::EventLog;
using protocol::JobEvent;
using scheduler::parse_since;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Reply = ControlServer::Reply;

JobEvent join_of(const std::string& node) {
  return {.kind = "join",
          .epoch = 3,
          .ranks = 4,
          .nodes = {node},
          .seconds = 0.5,
          .phases = {{"declare", 0.25}, {"register", 0.125}, {"enter", 0.125}},
          .text = "world 3"};
}

TEST(JobEvent, IsReadAsItWasWritten) {
  JobEvent event = join_of("n3");
  event.number = 7;
  event.time = 1769868000.25;
  const json::object written = to_json(event);
  EXPECT_EQ(to_json(protocol::job_event_from_json(written)), written);
  EXPECT_EQ(protocol::job_event_from_json(written).phases, event.phases);
}

TEST(JobEvent, IsRefusedWhenSomethingIsWrongWithIt) {
  const json::object good = to_json(join_of("n3"));
  for (const auto& [name, value] : good) {
    json::object bad = good;
    bad.erase(name);
    EXPECT_THROW(protocol::job_event_from_json(bad), protocol::ProtocolError) << name;
    bad[name] = json::array{nullptr};
    EXPECT_THROW(protocol::job_event_from_json(bad), protocol::ProtocolError) << name;
  }
}

class EventsTest : public ControlTest {
 protected:
  std::string file(const std::string& name = "events.jsonl") const { return folder() + "/" + name; }
  void append(const std::string& bytes) const { append(bytes, file()); }
  static void append(const std::string& bytes, const std::string& file) {
    std::ofstream(file, std::ios::app) << bytes;
  }
  /// The nodes of the file's events.
  std::vector<std::string> read() {
    std::vector<std::string> nodes;
    scheduler::read_event_file(
        file(), [&](const JobEvent& event) { nodes.push_back(event.nodes.at(0)); },
        [&](const std::string& note) { notes_.push_back(note); });
    return nodes;
  }
  int bellows(const std::vector<std::string>& arguments) {
    out_.str("");
    err_.str("");
    return scheduler::control_command(arguments, out_, err_);
  }
  std::vector<std::string> notes_;
  std::ostringstream out_, err_;
};

TEST_F(EventsTest, AreNumberedAndTheNewestAreKept) {
  EventLog log;
  EXPECT_EQ(log.newest(), 0);
  for (std::size_t i = 0; i < EventLog::kKept + 5; ++i) EXPECT_EQ(log.add(join_of("n1")), "");
  const auto all = log.after(0, 2 * EventLog::kKept);
  EXPECT_EQ(all.size(), EventLog::kKept);
  EXPECT_EQ(all.front().number, 6);
  EXPECT_EQ(all.back().number, log.newest());
  EXPECT_GT(all.back().time, 1.7e9);
  EXPECT_EQ(log.after(10, 2).back().number, 12);
  EXPECT_THAT(log.after(log.newest(), 9), IsEmpty());
}

TEST_F(EventsTest, AreAppendedToAFile) {
  for (const char* node : {"n1", "n2"}) {
    EventLog log;
    log.write_to(file());
    EXPECT_EQ(log.add(join_of(node)), "");
  }
  EXPECT_THAT(read(), ElementsAre("n1", "n2"));
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(EventsTest, OutliveALauncherThatWasKilledAsItWrote) {
  EventLog first;
  first.write_to(file());
  first.add(join_of("n1"));
  append(R"({"number":2,"ti)");
  EXPECT_THAT(read(), ElementsAre("n1"));
  EXPECT_THAT(notes_, ElementsAre(file() + ": line 2 is not whole, and left out"));
  EventLog second;
  second.write_to(file());
  second.add(join_of("n2"));
  second.add(join_of("n3"));
  notes_.clear();
  EXPECT_THAT(read(), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(notes_, ElementsAre(file() + ": line 2 is damaged, and left out"));
}

TEST_F(EventsTest, NeedAFileThatIsOne) {
  const auto refusal = [](const std::string& path) -> std::string {
    try {
      EventLog().write_to(path);
      return "taken";
    } catch (const std::runtime_error& failed) {
      return failed.what();
    }
  };
  EXPECT_EQ(refusal(folder()), "--events=" + folder() + ": Is a directory");
  EXPECT_THAT(refusal(file("no/where")), HasSubstr("No such file"));
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(file("pipe")), HasSubstr("is not a file"));
}

TEST_F(EventsTest, AreShownFromAFile) {
  EventLog log;
  log.write_to(file());
  log.add(join_of("n3"));
  append("nonsense\n");
  EXPECT_EQ(bellows({"events", "--file", file()}), 0);
  EXPECT_THAT(out_.str(),
              testing::MatchesRegex("TIME [^\n]+\n[0-9: -]+  join +0.50 s +3 +4  n3 +world 3\n"));
  EXPECT_THAT(err_.str(), HasSubstr("line 2 is damaged"));
  EXPECT_EQ(bellows({"events", "--file", file(), "--json"}), 0);
  EXPECT_EQ(json::parse(out_.str()).at("phases").at("enter"), 0.125);
  EXPECT_EQ(bellows({"events", "--file", file(), "--since", "@99999999999", "--json"}), 0);
  EXPECT_EQ(out_.str(), "");
  EXPECT_EQ(bellows({"events", "--file", file("none")}), 3);
  EXPECT_THAT(err_.str(), HasSubstr(file("none") + ": No such file"));
}

TEST_F(EventsTest, OfAFileThatIsNoLogAreComplainedOfAFewTimes) {
  EventLog log;
  log.write_to(file());
  log.add(join_of("n3"));
  for (int i = 0; i < 1000; ++i) append("nonsense\n");
  EXPECT_EQ(bellows({"events", "--file", file()}), 0);
  EXPECT_EQ(std::ranges::count(err_.str(), '\n'), 6);
  EXPECT_THAT(err_.str(), HasSubstr("line 6 is damaged"));
  EXPECT_THAT(err_.str(), HasSubstr(file() + ": 995 more lines are damaged, and left out"));
  for (int i = 0; i < 2; ++i) append("nonsense\n", file("other"));
  EXPECT_EQ(bellows({"events", "--file", file("other")}), 3);
  EXPECT_THAT(err_.str(), HasSubstr("other has no event of a job"));
}

TEST_F(EventsTest, OfARunningJobAreAskedForUntilThereAreNoMore) {
  EventLog log;
  for (int i = 0; i < 5; ++i) log.add(join_of("n" + std::to_string(i)));
  Launcher launcher("local-1", [&](const Message& request, const Reply& reply) {
    Message answer("events");
    json::array events;
    for (const JobEvent& event : log.after(request.number("after"), 2)) {
      events.push_back(to_json(event));
    }
    answer.head["launcher"] = 1;
    answer.head["newest"] = log.newest();
    answer.head["events"] = events;
    reply(answer);
  });
  EXPECT_EQ(bellows({"events", "--json"}), 0);
  const std::string text = out_.str();
  EXPECT_EQ(std::ranges::count(text, '\n'), 5);
}

TEST_F(EventsTest, AreFollowedToTheEndThroughAnotherLauncher) {
  // The second of two launchers counts anew; the first answer of each holds what it knows.
  int asked = 0;
  Launcher launcher("local-1", [&](const Message& request, const Reply& reply) {
    const int launcher_id = asked++ < 2 ? 1 : 2;
    EventLog log;
    log.add(join_of(launcher_id == 1 ? "n1" : "n2"));
    if (launcher_id == 2) log.add({.kind = "end", .text = "over"});
    Message answer("events");
    json::array events;
    const bool known = request.number("launcher") == launcher_id;
    for (const JobEvent& event : log.after(known ? request.number("after") : 0, 9)) {
      events.push_back(to_json(event));
    }
    answer.head["launcher"] = launcher_id;
    answer.head["newest"] = log.newest();
    answer.head["events"] = events;
    reply(answer);
  });
  EXPECT_EQ(bellows({"events", "--follow"}), 0);
  EXPECT_THAT(out_.str(), testing::ContainsRegex(" n1 .*\n.* n2 .*\n.* end .* over\n$"));
}

TEST_F(EventsTest, AreFollowedUntilTheJobIsGone) {
  int asked = 0;
  std::optional<Launcher> launcher;
  launcher.emplace("local-1", [&](const Message&, const Reply& reply) {
    if (asked++ > 0) {
      launcher->close_now();
      return;
    }
    Message answer("events");
    answer.head["launcher"] = 1;
    answer.head["newest"] = 0;
    answer.head["events"] = json::array();
    reply(answer);
  });
  EXPECT_EQ(bellows({"events", "--follow"}), 0);
  EXPECT_EQ(err_.str(), "bellows: the job has ended\n");
}

TEST(Since, IsWrittenInSeveralWays) {
  setenv("TZ", "UTC", 1);
  tzset();
  const auto now = std::chrono::system_clock::from_time_t(1769868000);  // 2026-01-31 14:00 UTC
  const auto since = [&](const char* text) { return parse_since(text, now); };
  EXPECT_EQ(since("90"), 1769868000 - 90);
  EXPECT_EQ(since("1.5m"), 1769868000 - 90);
  EXPECT_EQ(since("2h"), 1769868000 - 7200);
  EXPECT_EQ(since("1d"), 1769868000 - 86400);
  EXPECT_EQ(since("@12.5"), 12.5);
  EXPECT_EQ(since("13:59"), 1769868000 - 60);
  EXPECT_EQ(since("13:59:30"), 1769868000 - 30);
  EXPECT_EQ(since("2026-01-31T14:00"), 1769868000);
  EXPECT_EQ(since("2026-01-30"), 1769868000 - 38 * 3600);
  for (const char* wrong : {"", "m", "-5m", "5x", "25:00", "14:00 ", "2026-02-30", "2026-13-01",
                            "yesterday", "@", "1e300", "nan"}) {
    EXPECT_EQ(since(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace bellows::test
