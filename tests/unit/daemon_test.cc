// SPDX-License-Identifier: Apache-2.0
// bellowsd: whom it believes, whom it orders what, and what happens when somebody goes away.
#include <gmock/gmock.h>

#include <sstream>

#include "protocol/size_hints_json.h"
#include "tests/unit/daemon_fixture.h"

namespace bellows::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A user's connection: one request, one answer.
class User {
 public:
  User(boost::asio::io_context& io, std::uint16_t port, std::uint32_t user) : sealer_(user) {
    boost::asio::ip::tcp::socket socket(io);
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), port});
    channel_ = protocol::Channel::over(std::move(socket));
    channel_->start([this](const Message& sealed) { answer = sealer_.open(sealed).message; },
                    [this](const std::string&) { closed = true; });
  }
  ~User() { channel_->close(); }
  void ask(const Message& request) { channel_->send(sealer_.seal(request)); }
  /// Again and again, but not so often that the daemon takes offence.
  void keep_asking(const Message& request) {
    const auto now = std::chrono::steady_clock::now();
    if (now - asked_ < std::chrono::milliseconds(100)) return;
    asked_ = now;
    ask(request);
  }
  void send(const Message& message) { channel_->send(message); }

  std::optional<Message> answer;
  bool closed = false;

 private:
  FakeSealer sealer_;
  std::shared_ptr<protocol::Channel> channel_;
  std::chrono::steady_clock::time_point asked_;
};

Message resize(JobId job) {
  Message request("resize-nodes");
  request.head["job"] = job;
  request.head["nodes"] = "+1";
  return request;
}

// ---- orders -------------------------------------------------------------------------------------

TEST_F(DaemonTest, OrdersAJobToGrowIntoIdleNodes) {
  const ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1});
  set_cluster(6, {view(one)});
  start();
  Broker broker(io, settings.port, one);
  ASSERT_TRUE(until([&] { return !broker.orders.empty(); }));
  EXPECT_EQ(broker.orders[0].grow, 2);
  EXPECT_THAT(broker.orders[0].why, HasSubstr("idle"));
}

TEST_F(DaemonTest, OrdersOnceUntilTheOrderIsDone) {
  const ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1});
  set_cluster(6, {view(one)});
  start();
  Broker broker(io, settings.port, one);
  broker.on_order = [&](const Decision& order) { broker.job.coming = order.grow; };
  ASSERT_TRUE(until([&] { return !broker.orders.empty(); }));
  settle();
  EXPECT_EQ(broker.orders.size(), 1u);
  // It was granted one of the two: the rest is ordered again.
  broker.job = job(1, 1000, 1, 3, {1, 4, 1});
  set_cluster(6, {view(broker.job)});
  broker.link->changed();
  ASSERT_TRUE(until([&] { return broker.orders.size() == 2; }));
  EXPECT_EQ(broker.orders[1].grow, 1);
}

TEST_F(DaemonTest, DoesNotInsistOnWhatIsRefused) {
  const ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1});
  set_cluster(6, {view(one)});
  start();
  Broker broker(io, settings.port, one);
  ASSERT_TRUE(until([&] { return !broker.orders.empty(); }));
  settle();
  EXPECT_EQ(broker.orders.size(), 1u);
}

TEST_F(DaemonTest, LetsTheQueueGoFirst) {
  const ElasticJob one = job(1, 1000, 1, 4, {1, 4, 1});
  JobView pending;
  pending.id = 9;
  pending.user = 2000;
  pending.partition = "main";
  pending.least_nodes = 2;
  pending.eligible = true;
  set_cluster(4, {view(one), pending});
  start();
  Broker broker(io, settings.port, one);
  ASSERT_TRUE(until([&] { return !broker.orders.empty(); }));
  EXPECT_THAT(broker.orders[0].give_back, ElementsAre("n4", "n3"));
  EXPECT_THAT(broker.orders[0].why, HasSubstr("job 9"));
}

TEST_F(DaemonTest, OrdersNothingInADryRun) {
  settings.dry_run = true;
  const ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1});
  set_cluster(6, {view(one)});
  start();
  Broker broker(io, settings.port, one);
  User user(io, settings.port, 1000);
  ASSERT_TRUE(until([&] {
    user.keep_asking(Message("jobs"));
    return user.answer && !user.answer->array("events").empty();
  }));
  EXPECT_THAT(user.answer->array("events")[0].at("text").as_string().c_str(),
              HasSubstr("would grow by 2"));
  EXPECT_THAT(broker.orders, IsEmpty());
}

TEST_F(DaemonTest, TakesANewPolicyOver) {
  const ElasticJob one = job(1, 1000, 1, 5, {1, 6, 1}), two = job(2, 1000, 6, 1, {1, 6, 1});
  set_cluster(6, {view(one), view(two)});
  start();
  Broker first(io, settings.port, one), second(io, settings.port, two);
  settle();
  EXPECT_THAT(first.orders, IsEmpty());
  settings.policy = "fair";
  daemon->configure(settings);
  ASSERT_TRUE(until([&] { return !first.orders.empty(); }));
  EXPECT_THAT(first.orders[0].give_back, ElementsAre("n5", "n4"));
}

// ---- whom it believes ---------------------------------------------------------------------------

TEST_F(DaemonTest, BelievesSlurmAboutWhoseJobItIs) {
  ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1});
  set_cluster(6, {view(one)});
  start();
  one.user = 1001;
  Broker liar(io, settings.port, one);
  settle();
  EXPECT_THAT(liar.orders, IsEmpty());
}

TEST_F(DaemonTest, BelievesSlurmAboutWhoseNodesTheyAre) {
  const ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1}), two = job(2, 1001, 3, 2, {1, 2, 1});
  set_cluster(4, {view(one), view(two)});
  start();
  ElasticJob lie = one;
  lie.held.insert(lie.held.begin(), "n4");
  Broker liar(io, settings.port, lie), other(io, settings.port, two);
  User user(io, settings.port, 1000);
  ASSERT_TRUE(until([&] {
    user.keep_asking(Message("jobs"));
    return user.answer && user.answer->array("jobs").size() == 2;
  }));
  EXPECT_EQ(
      boost::json::value_to<std::vector<std::string>>(user.answer->array("jobs")[0].at("held")),
      (std::vector<std::string>{"n2", "n1"}));
}

TEST_F(DaemonTest, AnotherUserCannotTakeAJobOver) {
  const ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1});
  set_cluster(6, {view(one)});
  start();
  Broker broker(io, settings.port, one);
  ASSERT_TRUE(until([&] { return !broker.orders.empty(); }));
  User user(io, settings.port, 1001);
  user.ask(report_of(one));
  ASSERT_TRUE(until([&] { return user.closed; }));
  EXPECT_TRUE(broker.link->connected());
}

TEST_F(DaemonTest, DropsWhatItCannotUnderstand) {
  start();
  Message open("report"), strange("dance"), empty("report");
  User unsealed(io, settings.port, 1000);
  unsealed.send(open);
  EXPECT_TRUE(until([&] { return unsealed.closed; }));
  for (const Message& message : {strange, empty}) {
    User user(io, settings.port, 1000);
    user.ask(message);
    EXPECT_TRUE(until([&] { return user.closed; })) << message.type();
  }
}

TEST_F(DaemonTest, DropsWhoSendsTooMuch) {
  start();
  User user(io, settings.port, 1000);
  for (int i = 0; i < 200; ++i) user.ask(Message("jobs"));
  EXPECT_TRUE(until([&] { return user.closed; }));
}

TEST_F(DaemonTest, ABrokerTakesNoOrdersFromAnyUser) {
  const ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1});
  set_cluster(6, {view(one)});
  start();
  Broker broker(io, settings.port, one, 77);  // trusts 77 alone
  settle();
  EXPECT_THAT(broker.orders, IsEmpty());
}

// ---- requests -----------------------------------------------------------------------------------

TEST_F(DaemonTest, HandsOnRequestsOfTheOwnerAndOfOperators) {
  settings.operators = {0, 5};
  const ElasticJob one = job(1, 1000, 1, 2, {1, 2, 1});
  set_cluster(2, {view(one)});
  start();
  Broker broker(io, settings.port, one);
  for (const std::uint32_t who : {1000u, 5u, 0u}) {
    User user(io, settings.port, who);
    ASSERT_TRUE(until([&] {
      if (!user.answer || user.answer->type() == "refused") user.keep_asking(resize(1));
      return user.answer && user.answer->type() == "done";
    })) << who;
  }
  ASSERT_GE(broker.requests.size(), 3u);
  EXPECT_EQ(broker.requests[0].text("nodes"), "+1");
  User other(io, settings.port, 1001);
  other.ask(resize(1));
  ASSERT_TRUE(until([&] { return other.answer.has_value(); }));
  EXPECT_EQ(other.answer->type(), "refused");
  EXPECT_THAT(other.answer->text("reason"), HasSubstr("another user's"));
  User wrong(io, settings.port, 1000);
  wrong.ask(resize(2));
  ASSERT_TRUE(until([&] { return wrong.answer.has_value(); }));
  EXPECT_THAT(wrong.answer->text("reason"), HasSubstr("no elastic job 2"));
}

// ---- somebody goes away -------------------------------------------------------------------------

TEST_F(DaemonTest, AfterARestartAllIsKnownAgain) {
  const ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1});
  set_cluster(6, {view(one)});
  start();
  Broker broker(io, settings.port, one);
  ASSERT_TRUE(until([&] { return !broker.orders.empty(); }));
  stop();
  EXPECT_TRUE(broker.guided);
  ASSERT_TRUE(until([&] { return !broker.link->connected(); }));
  EXPECT_FALSE(broker.guided);
  broker.orders.clear();
  start();
  ASSERT_TRUE(until([&] { return !broker.orders.empty(); }));
  EXPECT_EQ(broker.orders[0].grow, 2);
}

TEST_F(DaemonTest, ABrokerWaitsForADaemonThatIsNotThere) {
  const ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1});
  set_cluster(6, {view(one)});
  start();
  stop();
  Broker broker(io, settings.port, one);
  settle();
  EXPECT_FALSE(broker.link->connected());
  start();
  EXPECT_TRUE(until([&] { return !broker.orders.empty(); }));
}

TEST_F(DaemonTest, DecidesNothingWhileTheClusterDoesNotAnswer) {
  const ElasticJob one = job(1, 1000, 1, 2, {1, 4, 1});
  set_cluster(6, {view(one)});
  cluster.set_away(true);
  start();
  Broker broker(io, settings.port, one);
  settle();
  EXPECT_THAT(broker.orders, IsEmpty());
  cluster.set_away(false);
  EXPECT_TRUE(until([&] { return !broker.orders.empty(); }));
}

TEST_F(DaemonTest, ForgetsAJobWhoseBrokerIsGone) {
  const ElasticJob one = job(1, 1000, 1, 4, {1, 4, 1});
  set_cluster(4, {view(one)});
  start();
  auto broker = std::make_unique<Broker>(io, settings.port, one);
  User user(io, settings.port, 1000);
  const auto known_are = [&](std::size_t count) {
    user.keep_asking(Message("jobs"));
    return user.answer && user.answer->array("jobs").size() == count;
  };
  ASSERT_TRUE(until([&] { return known_are(1); }));
  broker.reset();
  EXPECT_TRUE(until([&] { return known_are(0); }));
}

TEST_F(DaemonTest, RefusesARequestWhoseBrokerGoesAway) {
  const ElasticJob one = job(1, 1000, 1, 2, {1, 2, 1});
  set_cluster(2, {view(one)});
  start();
  auto broker = std::make_unique<Broker>(io, settings.port, one);
  broker->answers = false;
  User user(io, settings.port, 1000);
  ASSERT_TRUE(until([&] {
    user.keep_asking(resize(1));
    return !broker->requests.empty();
  }));
  user.answer.reset();
  broker.reset();
  ASSERT_TRUE(until([&] { return user.answer.has_value(); }));
  EXPECT_THAT(user.answer->text("reason"), HasSubstr("broker has gone"));
}

// ---- many ---------------------------------------------------------------------------------------

TEST_F(DaemonTest, OrdersAThousandJobs) {
  settings.interval = std::chrono::seconds(5);
  settings.pause = std::chrono::seconds(1);
  settings.forget = std::chrono::seconds(60);
  constexpr int kJobs = 1000;
  std::vector<JobView> views;
  std::vector<std::unique_ptr<Broker>> brokers;
  std::vector<ElasticJob> jobs;
  for (int i = 0; i < kJobs; ++i) {
    jobs.push_back(job(static_cast<JobId>(i + 1), 1000 + static_cast<std::uint32_t>(i % 7),
                       1 + 2 * i, 1, {1, 2, 1}));
    views.push_back(view(jobs.back()));
  }
  set_cluster(2 * kJobs, views);
  start();
  for (const ElasticJob& one : jobs) {
    brokers.push_back(std::make_unique<Broker>(io, settings.port, one));
    brokers.back()->on_order = [broker = brokers.back().get()](const Decision& order) {
      broker->job.coming = order.grow;
    };
  }
  EXPECT_TRUE(until(
      [&] {
        return std::all_of(brokers.begin(), brokers.end(),
                           [](const auto& broker) { return broker->orders.size() == 1; });
      },
      std::chrono::seconds(60)));
}

// ---- settings -----------------------------------------------------------------------------------

DaemonSettings settings_from(const std::string& text) {
  std::istringstream lines(text);
  return parse_daemon_settings(lines, "test.conf");
}

std::string complaint(const std::string& text) {
  try {
    settings_from(text);
    return "";
  } catch (const SettingsError& wrong) {
    return wrong.what();
  }
}

TEST(DaemonSettingsTest, AreRead) {
  const DaemonSettings read = settings_from(
      "# a comment\naddress = ctl:7000\npolicy = economic\npolicy-arguments = gain=0.3\n"
      "interval = 2.5\ndry-run = true\noperators = root\n");
  EXPECT_EQ(read.host, "ctl");
  EXPECT_EQ(read.port, 7000);
  EXPECT_EQ(read.policy, "economic");
  EXPECT_EQ(read.interval, std::chrono::milliseconds(2500));
  EXPECT_TRUE(read.dry_run);
  EXPECT_EQ(settings_from("address = ctl:1").policy, "turbo");
}

TEST(DaemonSettingsTest, NameWhatIsWrong) {
  EXPECT_THAT(complaint(""), HasSubstr("address: is missing"));
  EXPECT_THAT(complaint("port = 5"), HasSubstr("port"));
  EXPECT_THAT(complaint("address = ctl:1\npolicy = best"), HasSubstr("'best'"));
  EXPECT_THAT(complaint("address = ctl:1\npolicy-arguments = gain=1"), HasSubstr("turbo"));
  EXPECT_THAT(complaint("address = ctl"), HasSubstr("HOST:PORT"));
  EXPECT_THAT(complaint("address = ctl:70000"), HasSubstr("HOST:PORT"));
  EXPECT_THAT(complaint("address = ctl:1\ninterval = 0"), HasSubstr("interval"));
  EXPECT_THAT(complaint("address = ctl:1\ninterval = nan"), HasSubstr("interval"));
  EXPECT_THAT(complaint("address = ctl:1\noperators = nobody-of-this-name"),
              HasSubstr("nobody-of-this-name"));
  EXPECT_THAT(complaint("address = ctl:1\ndry-run = perhaps"), HasSubstr("dry-run"));
  EXPECT_THAT(complaint("address = ctl:1\nlog-level = loud"), HasSubstr("loud"));
  EXPECT_THROW(read_daemon_settings("/nowhere/bellowsd.conf"), SettingsError);
}

// ---- reports ------------------------------------------------------------------------------------

TEST(Report, SurvivesTheWay) {
  ElasticJob one;
  one.id = 7;
  one.name = "train";
  one.partition = "main";
  one.features = "fast";
  one.places = {{"spot", "slow", 3}, {"main", "", 0}};
  one.bounds = {2, 9, 3};
  one.held = {"n3", "n2"};
  one.fixed = {"n2"};
  one.going = {"n3"};
  one.coming = 4;
  one.speeds[2] = {123.5, Time(std::chrono::seconds(1'000'000))};
  one.since = Time(std::chrono::seconds(999));
  one.work_left = 1e6;
  one.samples_per_second = 12.25;
  one.ranks = 8;
  one.step = 77;
  one.live = LiveView{"steady", 3, 64, 0.125, 0.75, 1e9, "join", "world 3"};
  one.hints = SizeHints{4, 8, 2, 4, 123.5, 0.25, -0.125};
  const ElasticJob again = job_of(report_of(one));
  EXPECT_EQ(report_of(again).head, report_of(one).head);
  EXPECT_EQ(again.places, one.places);
  EXPECT_EQ(again.held, one.held);
  EXPECT_EQ(again.going, one.going);
  EXPECT_EQ(again.live, one.live);
  EXPECT_EQ(again.hints, one.hints);
}

TEST(Report, NeedsNoHints) {
  ElasticJob one;
  one.id = 7;
  one.held = {"n1"};
  EXPECT_EQ(job_of(report_of(one)).hints, std::nullopt);
  one.hints = SizeHints{4, 8, 2, 4, 123.5, std::nullopt, std::nullopt};
  EXPECT_EQ(job_of(report_of(one)).hints, one.hints);
  Message bad = report_of(one);
  for (const auto& member : protocol::to_json(*one.hints)) {
    bad = report_of(one);
    bad.head["hints"].as_object()[member.key()] = -1;
    EXPECT_THROW(job_of(bad), protocol::ProtocolError) << member.key();
    bad.head["hints"].as_object().erase(member.key());
    EXPECT_THROW(job_of(bad), protocol::ProtocolError) << member.key();
  }
  bad.head["hints"] = "many";
  EXPECT_THROW(job_of(bad), protocol::ProtocolError);
}

// Brokers of an older version do not tell it.
TEST(Report, NeedsNothingForThoseWhoWatch) {
  ElasticJob one;
  one.id = 7;
  one.held = {"n1"};
  EXPECT_EQ(job_of(report_of(one)).live, std::nullopt);
  one.live.emplace().event_kind = "join";
  one.live->event_text = std::string(2000, 'x');
  EXPECT_EQ(job_of(report_of(one)).live->event_text.size(), 512U);
  Message bad = report_of(one);
  for (const char* name : {"batch", "learning_rate", "efficiency", "epoch", "state", "event"}) {
    bad = report_of(one);
    bad.head["live"].as_object()[name] = boost::json::array{-1};
    EXPECT_THROW(job_of(bad), protocol::ProtocolError) << name;
  }
}

TEST(Report, WithSomethingWrongIsRefused) {
  const Message good = report_of([] {
    ElasticJob one;
    one.id = 7;
    one.held = {"n1"};
    return one;
  }());
  EXPECT_NO_THROW(job_of(good));
  for (const auto& [name, value] : good.head) {
    for (const boost::json::value& wrong : std::initializer_list<boost::json::value>{
             nullptr, boost::json::object{}, -1, boost::json::array{-1}}) {
      Message bad = good;
      bad.head[name] = wrong;
      if (value == wrong) continue;
      EXPECT_THROW(job_of(bad), protocol::ProtocolError) << name << " = " << wrong;
    }
    Message absent = good;
    absent.head.erase(name);
    EXPECT_THROW(job_of(absent), protocol::ProtocolError) << name;
  }
  Message stranger = good;
  stranger.head["fixed"] = boost::json::array{"n2"};
  EXPECT_THROW(job_of(stranger), protocol::ProtocolError);
}

}  // namespace
}  // namespace bellows::test
