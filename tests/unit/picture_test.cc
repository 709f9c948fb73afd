// SPDX-License-Identifier: Apache-2.0
// From looks at a cluster to the bars of a picture: who had which nodes when.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "scheduler/daemon/daemon_events.h"
#include "scheduler/picture/gnuplot.h"
#include "scheduler/picture/occupancy.h"
#include "scheduler/picture/picture_page.h"

namespace bellows::test {
namespace {

using namespace scheduler;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;
namespace json = boost::json;

JobView job(JobId id, std::vector<std::string> nodes, std::uint32_t user = 1000) {
  JobView view;
  view.id = id;
  view.user = user;
  view.state = JobState::running;
  view.name = "train";
  view.partition = "main";
  view.nodes = std::move(nodes);
  return view;
}

std::string told(const std::vector<NodesChange>& changes) {
  std::string text;
  const auto list = [](const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ",") + name;
    return all;
  };
  for (const NodesChange& change : changes) {
    text += std::to_string(change.job) + (change.elastic ? "*" : "") + "=" + list(change.nodes) +
            " +" + list(change.got) + " -" + list(change.gave) + "; ";
  }
  return text;
}

// ---- what has changed ---------------------------------------------------------------------------

TEST(Occupancy, TellsWhatHasChanged) {
  Occupancy occupancy;
  EXPECT_EQ(told(occupancy.update({job(1, {"n1", "n2"}), job(2, {"n3"})}, {1})),
            "1*=n1,n2 +n1,n2 -; 2=n3 +n3 -; ");
  EXPECT_EQ(told(occupancy.update({job(1, {"n1", "n2"}), job(2, {"n3"})}, {})), "");
  EXPECT_EQ(told(occupancy.update({job(1, {"n2", "n4"}), job(2, {"n3"})}, {})),
            "1*=n2,n4 +n4 -n1; ");
  EXPECT_EQ(told(occupancy.update({job(2, {"n3"})}, {})), "1*= + -n2,n4; ");
  JobView over = job(2, {"n3"});
  over.state = JobState::ended;
  EXPECT_EQ(told(occupancy.update({over}, {})), "2= + -n3; ");
}

TEST(Occupancy, CountsCompanionsAndComponentsForTheirJob) {
  JobView brick = job(7, {"n9"}), foreign = job(8, {"n8"}, 1001), part = job(5, {"n5"});
  brick.comment = brick_comment(1);
  foreign.comment = brick_comment(1);  // says anybody
  part.het_leader = 1;
  Occupancy occupancy;
  EXPECT_EQ(told(occupancy.update({job(1, {"n1"}), brick, foreign, part}, {1})),
            "1*=n1,n5,n9 +n1,n5,n9 -; 8=n8 +n8 -; ");
  brick.comment = "bellows brick of 99";
  EXPECT_EQ(told(occupancy.update({job(1, {"n1", "n5"}), foreign, brick}, {1})),
            "1*=n1,n5 + -n9; 7=n9 +n9 -; ");
}

// ---- the file -----------------------------------------------------------------------------------

class PictureTest : public testing::Test {
 protected:
  PictureTest() {
    spdlog::set_level(spdlog::level::off);
    std::string name = "/tmp/bellows-picture-test-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~PictureTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string write(const std::string& text, const std::string& name = "events.jsonl") const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  Picture read(const std::string& text) { return read(std::vector{write(text)}); }
  Picture read(const std::vector<std::string>& files) {
    notes_.clear();
    return read_picture(files, [&](const std::string& note) { notes_.push_back(note); });
  }
  std::string folder_;
  std::vector<std::string> notes_;
};

std::string nodes_line(double time, JobId id, const std::vector<std::string>& nodes,
                       bool elastic = true) {
  return json::serialize(json::object{{"time", time},
                                      {"kind", "nodes"},
                                      {"job", id},
                                      {"name", "a<b"},
                                      {"user", 1000},
                                      {"partition", "main"},
                                      {"elastic", elastic},
                                      {"nodes", json::value_from(nodes)}}) +
         "\n";
}
std::string line(double time, const char* kind, json::object more = {}) {
  more["time"] = time;
  more["kind"] = kind;
  return json::serialize(more) + "\n";
}
std::string bars(const Picture& picture) {
  std::string text;
  for (const PictureBar& bar : picture.bars) {
    text += bar.node + ":" + std::to_string(bar.job) + " " +
            std::to_string(static_cast<int>(bar.from)) + "-" +
            std::to_string(static_cast<int>(bar.to)) + (bar.open ? "+" : "") +
            (bar.why.empty() ? "" : " " + bar.why) + "; ";
  }
  return text;
}

TEST_F(PictureTest, BarsAreWhoHadWhichNodeWhen) {
  const Picture picture =
      read(line(100, "begin") + line(101, "cluster", {{"nodes", json::array{"n10", "n2", "n1"}}}) +
           nodes_line(101, 1, {"n1"}) +
           line(102, "decision",
                {{"job", 1},
                 {"dry_run", false},
                 {"grow", 1},
                 {"give_back", json::array{}},
                 {"why", "idle"}}) +
           nodes_line(103, 1, {"n1", "n10"}) + nodes_line(110, 1, {"n1"}) +
           nodes_line(111, 2, {"n10"}, false) + nodes_line(120, 2, {}, false) + line(130, "end"));
  EXPECT_THAT(picture.nodes, ElementsAre("n1", "n2", "n10"));
  EXPECT_EQ(bars(picture), "n1:1 101-130+; n10:1 103-110 idle; n10:2 111-120; ");
  EXPECT_EQ(picture.begin, 100);
  EXPECT_EQ(picture.end, 130);
  EXPECT_FALSE(picture.jobs.at(2).elastic);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(PictureTest, WhatNobodyHasSeenIsNotDrawn) {
  // Killed, and started again much later; then its file was opened anew.
  const Picture picture =
      read(nodes_line(100, 1, {"n1"}) + line(160, "alive") + line(500, "begin") +
           nodes_line(501, 1, {"n1"}) + line(510, "begin", {{"resumed", true}}) +
           nodes_line(511, 1, {"n1"}) + line(520, "alive"));
  EXPECT_EQ(bars(picture), "n1:1 100-160+; n1:1 501-520+; ");
}

TEST_F(PictureTest, DamageIsNamedAndTheRestRead) {
  const std::string whole = nodes_line(100, 1, {"n1"}) + nodes_line(110, 1, {"n1", "n2"});
  EXPECT_EQ(bars(read(whole + R"({"time":120,"kind":"nodes","jo)")),
            "n1:1 100-110+; n2:1 110-110+; ");
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("line 3 is not whole")));
  for (
      const char* bad :
      {"[]", "{}", R"({"time":1e300,"kind":"alive"})", "\xFF\x00\x01",
       R"({"time":111,"kind":"nodes","job":-1,"nodes":[]})",
       R"({"time":111,"kind":"nodes","job":1,"name":"x","user":1,"partition":"p","elastic":true,"nodes":[3]})"}) {
    const Picture picture = read(std::string(bad) + "\n" + whole + line(120, "alive"));
    EXPECT_EQ(bars(picture), "n1:1 100-120+; n2:1 110-120+; ") << bad;
    EXPECT_THAT(notes_, ElementsAre(HasSubstr("line 1 is damaged")));
  }
  // Every place where it could have been cut off.
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const std::string file = write(whole.substr(0, length));
    try {
      read(std::vector{file});
      EXPECT_GE(length, whole.find('}'));
    } catch (const std::runtime_error& nothing) {
      EXPECT_THAT(nothing.what(), HasSubstr("no event of bellowsd's"));
    }
  }
}

TEST_F(PictureTest, SeveralFilesAreOneLogAndTimesGoForward) {
  const std::string first = write(nodes_line(100, 1, {"n1"}), "1");
  const std::string second = write(nodes_line(110, 1, {}), "2");
  EXPECT_EQ(bars(read({first, second})), "n1:1 100-110; ");
  EXPECT_THAT(notes_, IsEmpty());
  read({second, first});
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("backwards")));
  EXPECT_THROW(read(std::vector<std::string>{"/nowhere"}), std::runtime_error);
  EXPECT_THROW(read(std::vector{folder_}), std::runtime_error);
}

TEST_F(PictureTest, IsDrawnOfWhatTheDaemonWrites) {
  const std::string path = folder_ + "/daemon.jsonl";
  {
    DaemonEvents events;
    events.open(path, {});
    std::vector<NodeView> nodes(2);
    nodes[0].name = "n1";
    nodes[1].name = "n2";
    events.write_look({job(1, {"n1"})}, nodes, {1});
    events.write_look({job(1, {"n1"})}, nodes, {1});
    events.write("request", {{"job", 1}});
    fs::rename(path, folder_ + "/rotated");
    events.open(path, {});  // as SIGHUP does
    events.write_look({job(1, {"n1", "n2"})}, nodes, {1});
    events.write("end");
    EXPECT_THROW(events.open("/nowhere/x", {}), std::runtime_error);
    events.write("alive");
  }
  EXPECT_EQ(fs::status(path).permissions() & fs::perms::others_all, fs::perms::none);
  const Picture picture = read({folder_ + "/rotated", path});
  EXPECT_THAT(notes_, IsEmpty());
  ASSERT_EQ(picture.bars.size(), 2U);
  EXPECT_EQ(picture.bars[0].node, "n1");
  EXPECT_EQ(picture.bars[1].node, "n2");
}

// ---- the page -----------------------------------------------------------------------------------

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
  return found;
}

TEST_F(PictureTest, APageHasABoxAndARowForEachBar) {
  std::string log = line(100, "cluster", {{"nodes", json::array{"n1", "it's \"n2\"\\"}}});
  for (JobId id = 1; id <= 40; ++id) {
    log += nodes_line(100 + id, id, {"n1", "it's \"n2\"\\"});
    if (id % 3 == 0) log += nodes_line(100.5 + id, id, {"n1"});
  }
  const Picture picture = read(log);
  const std::string page = picture_page(picture, {"<a note>"});
  EXPECT_EQ(picture.bars.size(), 80U);
  EXPECT_EQ(count(page, "<polygon"), 80U);
  EXPECT_EQ(count(page, "<tr>"), 81U);
  EXPECT_EQ(count(page, "<title>job "), 40U);
  EXPECT_THAT(page, HasSubstr("&lt;a note&gt;"));
  EXPECT_THAT(page, HasSubstr("a&lt;b"));
  EXPECT_EQ(page.find("a<b"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  // Nothing from elsewhere.
  EXPECT_EQ(page.find("href=\"http"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
}

TEST_F(PictureTest, AnEmptyClusterHasAPage) {
  EXPECT_THAT(picture_page(read(line(100, "begin")), {}), HasSubstr("0 nodes, 0 jobs"));
}

TEST(Gnuplot, SaysWhatIsWrong) {
  const auto refusal = [](const std::string& script, std::chrono::milliseconds limit) {
    try {
      return run_gnuplot(script, limit);
    } catch (const std::runtime_error& failed) {
      return std::string("failed: ") + failed.what();
    }
  };
  EXPECT_THAT(refusal("nonsense\n", std::chrono::seconds(20)), HasSubstr("invalid command"));
  EXPECT_THAT(refusal("pause 60\n", std::chrono::milliseconds(200)), HasSubstr("not done within"));
  EXPECT_EQ(gnuplot_string("it's"), "'it''s'");
}

TEST(NaturalOrder, IsThatOfPeople) {
  std::vector<std::string> names = {"n10", "n2", "n1", "a", "n02", "n1b", "n"};
  std::ranges::sort(names, natural_less);
  EXPECT_THAT(names, ElementsAre("a", "n", "n1", "n1b", "n02", "n2", "n10"));
}

}  // namespace
}  // namespace bellows::test
