// SPDX-License-Identifier: Apache-2.0
// Metrics for Prometheus: the text, the file, the server and its limits.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <thread>

#include "mpi_elastic/coordinator/run_metrics.h"
#include "protocol/fd.h"
#include "protocol/metrics_server.h"
#include "protocol/metrics_text.h"
#include "scheduler/daemon/daemon_metrics.h"

namespace bellows::test {
namespace {

using protocol::MetricsAddress;
using protocol::MetricsLimits;
using protocol::MetricsServer;
using protocol::MetricsText;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Type = MetricsText::Type;
namespace fs = std::filesystem;

// ---- the text -----------------------------------------------------------------------------------

TEST(MetricsText, HasAHeadingAndItsSamplesForEachFamily) {
  MetricsText text;
  text.family("a_total", Type::counter, "All.").add({}, 3).add({{"k", "v"}, {"l", "w"}}, 0.25);
  text.family("none", Type::gauge, "Without samples.");
  text.family("b", Type::gauge, "One.").add({{"k", "v"}}, -1e100);
  EXPECT_EQ(text.str(), R"(# HELP a_total All.
# TYPE a_total counter
a_total 3
a_total{k="v",l="w"} 0.25
# HELP b One.
# TYPE b gauge
b{k="v"} -1e+100
)");
}

TEST(MetricsText, TakesAnyBytesAndAnyNumber) {
  MetricsText text;
  const double infinite = std::numeric_limits<double>::infinity();
  text.family("a", Type::gauge, "x")
      .add({{"k", "q\"\\\n{},="}}, infinite)
      .add({{"k", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"}}, -infinite)
      .add({{"k", "\xFF|\xC3|\xC0\x80|\xED\xA0\x80"}}, std::nan(""));
  EXPECT_THAT(text.str(), HasSubstr("a{k=\"q\\\"\\\\\\n{},=\"} +Inf\n"));
  EXPECT_THAT(text.str(), HasSubstr("a{k=\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\"} -Inf\n"));
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_THAT(text.str(), HasSubstr("a{k=\"" + mark + "|" + mark + "|" + mark + mark + "|" + mark +
                                    mark + mark + "\"} NaN\n"));
}

class MetricsFile : public testing::Test {
 protected:
  MetricsFile() {
    std::string name = "/tmp/bellows-metrics-test-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~MetricsFile() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string file() const { return folder_ + "/job.prom"; }
  std::string read() const {
    std::stringstream text;
    text << std::ifstream(file()).rdbuf();
    return text.str();
  }
  std::string folder_;
};

TEST_F(MetricsFile, IsReplacedAsAWhole) {
  protocol::write_metrics_file(file(), "one\n");
  const std::ifstream reader(file());  // has the old one
  protocol::write_metrics_file(file(), "two\n");
  EXPECT_EQ(read(), "two\n");
  std::stringstream old;
  old << reader.rdbuf();
  EXPECT_EQ(old.str(), "one\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(MetricsFile, ThatCannotBeWrittenIsNamed) {
  try {
    protocol::write_metrics_file("/nowhere/x.prom", "");
    FAIL();
  } catch (const std::runtime_error& failed) {
    EXPECT_THAT(failed.what(), HasSubstr("/nowhere/x.prom"));
  }
  fs::create_directory(file());
  EXPECT_THROW(protocol::write_metrics_file(file(), ""), std::runtime_error);
  // What is no file stays what it is.
  EXPECT_THROW(protocol::write_metrics_file("/dev/null", "text"), std::runtime_error);
  struct stat found{};
  ASSERT_EQ(stat("/dev/null", &found), 0);
  EXPECT_TRUE(S_ISCHR(found.st_mode));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

// ---- the server ---------------------------------------------------------------------------------

TEST(MetricsAddress, IsLoopbackUnlessAnotherIsNamed) {
  EXPECT_EQ(MetricsAddress::parse("9464").address, "127.0.0.1");
  EXPECT_EQ(MetricsAddress::parse(":9464").port, 9464);
  EXPECT_EQ(MetricsAddress::parse("localhost:1").address, "127.0.0.1");
  EXPECT_EQ(MetricsAddress::parse("0.0.0.0:1").address, "0.0.0.0");
  EXPECT_EQ(MetricsAddress::parse("[::1]:1").address, "::1");
  for (const char* wrong : {"", ":", "x", "1.2.3.4", "1.2.3.4:", "host:1", "::1:1", "1:2:3",
                            "70000", "-1", "1x", "[::1]1", "1.2.3:4"}) {
    EXPECT_THROW(MetricsAddress::parse(wrong), std::invalid_argument) << wrong;
  }
}

class MetricsServerTest : public testing::Test {
 protected:
  void serve(MetricsLimits limits = {}) {
    server_ =
        std::make_unique<MetricsServer>(io_, MetricsAddress{}, [this] { return text_; }, limits);
    thread_ = std::thread([this] { io_.run(); });
  }
  ~MetricsServerTest() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }
  /// A connection that gives up after 20 s.
  protocol::Fd connect() const {
    protocol::Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{20, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  static void send(const protocol::Fd& fd, const std::string& text) {
    ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// Until the other side ends the connection; "late" when it does not.
  static std::string receive(const protocol::Fd& fd) {
    std::string all;
    std::array<char, 4096> part;
    while (true) {
      const ssize_t n = recv(fd.get(), part.data(), part.size(), 0);
      if (n < 0 && errno == EAGAIN) return "late";
      if (n <= 0) return all;
      all.append(part.data(), static_cast<std::size_t>(n));
    }
  }
  std::string ask(const std::string& request) const {
    const protocol::Fd fd = connect();
    send(fd, request);
    return receive(fd);
  }

  boost::asio::io_context io_;
  std::string text_ = "a 1\n";
  std::unique_ptr<MetricsServer> server_;
  std::thread thread_;
};

TEST_F(MetricsServerTest, AnswersOneQuestion) {
  serve();
  const std::string answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(answer, testing::EndsWith("\r\n\r\na 1\n"));
  EXPECT_THAT(ask("GET /metrics?x=1 HTTP/1.0\r\n\r\n"), HasSubstr("200 OK"));
  const std::string head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 4"));
  EXPECT_THAT(head, Not(HasSubstr("a 1")));
}

TEST_F(MetricsServerTest, RefusesAllElse) {
  serve({.request_bytes = 1000});
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nX: " + std::string(1000, 'x')),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(MetricsServerTest, DropsThoseWhoTakeTheirTimeAndThoseWhoAreTooMany) {
  serve({.patience = std::chrono::milliseconds(300), .clients = 2});
  const protocol::Fd first = connect(), second = connect();
  send(first, "GET /metr");
  EXPECT_EQ(receive(second), "");
  EXPECT_EQ(receive(first), "");
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\n\r\n"), HasSubstr("200 OK"));
}

TEST_F(MetricsServerTest, ClosesThoseAboveTheLimitAtOnce) {
  serve({.patience = std::chrono::seconds(60), .clients = 2});
  const protocol::Fd first = connect(), second = connect(), third = connect();
  EXPECT_EQ(receive(third), "");  // though it has all the time
  send(first, "GET /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(receive(first), HasSubstr("200 OK"));
}

TEST_F(MetricsServerTest, KeepsNothingRunningWhenItIsClosed) {
  serve({.patience = std::chrono::seconds(60)});
  const protocol::Fd open = connect();
  send(open, "GET");
  boost::asio::post(io_, [this] { server_.reset(); });
  thread_.join();  // the io_context has run out of work
  EXPECT_EQ(receive(open), "");
}

TEST_F(MetricsServerTest, NamesAnAddressThatIsTaken) {
  serve();
  try {
    const MetricsServer another(io_, {"127.0.0.1", server_->port()}, [] { return ""; });
    FAIL();
  } catch (const std::runtime_error& failed) {
    EXPECT_THAT(failed.what(), HasSubstr("127.0.0.1:" + std::to_string(server_->port())));
  }
}

// ---- what is told -------------------------------------------------------------------------------

// Each family once, of which the name says the type.
void expect_conventions(const std::string& text) {
  std::istringstream lines(text);
  std::set<std::string> families;
  std::string line, family;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string hash, what, type;
    words >> hash >> what;
    if (what == "HELP") {
      words >> family;
      EXPECT_TRUE(families.insert(family).second) << family;
      EXPECT_EQ(line.back(), '.') << line;
    } else if (what == "TYPE") {
      std::string name;
      words >> name >> type;
      EXPECT_EQ(name, family);
      EXPECT_EQ(type == "counter", name.ends_with("_total")) << line;
    } else {
      EXPECT_THAT(line, StartsWith(family)) << line;
    }
  }
}

protocol::Message status() {
  protocol::Message status("status");
  status.head = boost::json::parse(R"({"type":"status","job":"4711.80","epoch":3,"state":"steady",
    "min":1,"max":8,"step":120,"samples_per_second":812.25,"batch":64,"learning_rate":0.125,
    "efficiency":0.75,"samples_left":1e6,
    "hints":{"best_nodes":4,"best_ranks":8,"economic_nodes":2,"economic_ranks":4,"goodput":800.5,
      "gain_of_more":0.25,"loss_of_less":0.5},
    "ranks":[{"state":"running"},{"state":"leaving"},{"state":"joining"}],
    "nodes":[{"name":"n1"},{"name":"n2"}]})")
                    .as_object();
  return status;
}

TEST(RunMetrics, TellTheWorldItsProgressAndWhatHasHappened) {
  elastic::EventCounts counts;
  counts.add({.kind = "join", .seconds = 0.5, .text = ""});
  counts.add({.kind = "join", .seconds = 0.25, .text = ""});
  counts.add({.kind = "granted", .nodes = {"n1", "n2"}, .seconds = 2, .text = ""});
  const std::string text = elastic::run_metrics(status(), counts);
  for (const char* line :
       {"bellows_ranks{job_id=\"4711.80\"} 2",
        "bellows_ranks_joining{job_id=\"4711.80\"} 1",
        "bellows_ranks_leaving{job_id=\"4711.80\"} 1",
        "bellows_nodes{job_id=\"4711.80\"} 2",
        "bellows_world_epoch{job_id=\"4711.80\"} 3",
        "bellows_step_total{job_id=\"4711.80\"} 120",
        "bellows_job_state{job_id=\"4711.80\",state=\"steady\"} 1",
        "bellows_job_state{job_id=\"4711.80\",state=\"ending\"} 0",
        "bellows_samples_per_second{job_id=\"4711.80\"} 812.25",
        "bellows_samples_left{job_id=\"4711.80\"} 1e+06",
        "bellows_batch_samples{job_id=\"4711.80\"} 64",
        "bellows_learning_rate{job_id=\"4711.80\"} 0.125",
        "bellows_efficiency_ratio{job_id=\"4711.80\"} 0.75",
        "bellows_best_nodes{job_id=\"4711.80\",by=\"goodput\"} 4",
        "bellows_best_nodes{job_id=\"4711.80\",by=\"cost\"} 2",
        "bellows_best_ranks{job_id=\"4711.80\",by=\"goodput\"} 8",
        "bellows_best_ranks{job_id=\"4711.80\",by=\"cost\"} 4",
        "bellows_goodput_samples_per_second{job_id=\"4711.80\"} 800.5",
        "bellows_goodput_change_ratio{job_id=\"4711.80\",nodes=\"+1\"} 0.25",
        "bellows_goodput_change_ratio{job_id=\"4711.80\",nodes=\"-1\"} -0.5",
        "bellows_world_changes_total{job_id=\"4711.80\",kind=\"join\"} 2",
        "bellows_world_changes_total{job_id=\"4711.80\",kind=\"repair\"} 0",
        "bellows_world_change_seconds_total{job_id=\"4711.80\",kind=\"join\"} 0.75",
        "bellows_allocation_nodes_total{job_id=\"4711.80\",kind=\"granted\"} 2",
        "bellows_allocation_change_seconds_total{job_id=\"4711.80\",kind=\"granted\"} 2"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
  expect_conventions(text);
}

TEST(RunMetrics, LeaveOutWhatIsNotKnown) {
  protocol::Message little = status();
  for (const char* name : {"batch", "learning_rate", "efficiency", "samples_left", "hints"}) {
    little.head.erase(name);
  }
  const std::string text = elastic::run_metrics(little, {});
  for (const char* name : {"batch", "learning", "efficiency", "samples_left", "best", "goodput"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

TEST(DaemonMetrics, TellTheClusterItsJobsAndTheDecisions) {
  scheduler::DaemonView view;
  view.policy = "fair";
  scheduler::ElasticJob job;
  job.id = 7;
  job.partition = "main";
  job.held = {"n1", "n2"};
  job.step = 12;
  job.live.emplace().efficiency = 0.5;
  job.hints = SizeHints{4, 8, 2, 4, 100, 0.25, 0.5};
  view.jobs = {job};
  view.nodes.resize(3);
  view.nodes[0].state = view.nodes[1].state = scheduler::NodeState::allocated;
  view.nodes[2].state = scheduler::NodeState::idle;
  scheduler::DaemonCounts counts;
  counts.grow = 2;
  counts.grow_nodes = 3;
  counts.refused = 1;
  const std::string text = daemon_metrics(view, counts);
  for (const char* line :
       {"bellowsd_nodes{state=\"idle\"} 1", "bellowsd_nodes{state=\"allocated\"} 2",
        "bellowsd_jobs 1", "bellowsd_job_nodes{job_id=\"7\",partition=\"main\"} 2",
        "bellowsd_job_step_total{job_id=\"7\",partition=\"main\"} 12",
        "bellowsd_job_efficiency_ratio{job_id=\"7\",partition=\"main\"} 0.5",
        "bellowsd_job_best_nodes{job_id=\"7\",partition=\"main\"} 4",
        "bellowsd_job_economic_nodes{job_id=\"7\",partition=\"main\"} 2",
        "bellowsd_job_goodput_samples_per_second{job_id=\"7\",partition=\"main\"} 100",
        "bellowsd_decisions_total{kind=\"grow\"} 2",
        "bellowsd_decision_nodes_total{kind=\"grow\"} 3",
        "bellowsd_answers_total{outcome=\"refused\"} 1",
        "bellowsd_policy_info{policy=\"fair\",dry_run=\"false\"} 1"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("samples_left")));
  expect_conventions(text);
}

}  // namespace
}  // namespace bellows::test
