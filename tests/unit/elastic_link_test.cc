// SPDX-License-Identifier: Apache-2.0
// How agents and bellows-run meet over loopback: who is let in, who is turned away and told why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/json.hpp>
#include <optional>
#include <thread>

#include "mpi_elastic/common/greeting.h"
#include "mpi_elastic/coordinator/agent_links.h"
#include "protocol/secret.h"

namespace bellows::elastic {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using protocol::Message;
using protocol::ProtocolError;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// ---- one greeting, without sockets --------------------------------------------------------------

Message hello_to(const Challenge& challenge, const std::string& secret) {
  const std::string nonce = protocol::random_hex();
  Message hello("hello");
  hello.head["version"] = protocol::kVersion;
  hello.head["nonce"] = nonce;
  hello.head["proof"] = protocol::proof(secret, "agent", challenge.message().text("nonce"), nonce);
  hello.head["node"] = "n1";
  return hello;
}

TEST(ElasticChallenge, AcceptsTheSecretAndProvesItsOwnKnowledge) {
  const Challenge challenge;
  const Message hello = hello_to(challenge, "s");
  Message welcome;
  EXPECT_EQ(challenge.check(hello, "s", welcome), "");
  EXPECT_EQ(welcome.type(), "welcome");
  EXPECT_EQ(welcome.text("proof"), protocol::proof("s", "coordinator", hello.text("nonce"),
                                                   challenge.message().text("nonce")));
}

TEST(ElasticChallenge, RefusesAWrongSecretAndAPlayedBackProof) {
  const Challenge challenge, another;
  Message welcome;
  EXPECT_EQ(challenge.check(hello_to(challenge, "other"), "s", welcome), "wrong secret");
  EXPECT_EQ(challenge.check(hello_to(another, "s"), "s", welcome), "wrong secret");
  Message mirrored = hello_to(challenge, "s");
  mirrored.head["proof"] = protocol::proof("s", "coordinator", challenge.message().text("nonce"),
                                           mirrored.text("nonce"));
  EXPECT_EQ(challenge.check(mirrored, "s", welcome), "wrong secret");
  EXPECT_EQ(welcome.type(), "");
}

TEST(ElasticChallenge, RefusesAnotherVersionAndSaysWhatToDo) {
  const Challenge challenge;
  Message hello = hello_to(challenge, "s"), welcome;
  hello.head["version"] = protocol::kVersion + 1;
  EXPECT_THAT(challenge.check(hello, "s", welcome),
              AllOf(HasSubstr("version 2"), HasSubstr("install the same Bellows on all nodes")));
}

TEST(ElasticChallenge, RefusesWhatIsNoHello) {
  const Challenge challenge;
  Message welcome;
  EXPECT_EQ(challenge.check(Message("output"), "s", welcome), "the first message is not a hello");
  for (const char* member : {"version", "nonce", "proof"}) {
    Message hello = hello_to(challenge, "s");
    hello.head.erase(member);
    EXPECT_THROW(challenge.check(hello, "s", welcome), ProtocolError) << member;
  }
}

// ---- over loopback ------------------------------------------------------------------------------

class ElasticLinks : public testing::Test {
 protected:
  ElasticLinks() { links_.listen({0, 0}, true); }
  AgentSettings settings(const std::string& node, const std::string& secret = "s") const {
    AgentSettings settings;
    settings.node = node;
    settings.secret = secret;
    settings.job = "1";
    settings.connect_seconds = 10;
    settings.addresses = {"127.0.0.1:" + std::to_string(links_.port())};
    return settings;
  }
  // The agent's side runs on a thread of its own, ours here.
  std::string greet(const AgentSettings& settings, Welcome* kept = nullptr) {
    std::string result;
    bool done = false;
    std::thread agent([&] {
      try {
        Welcome welcome = greet_coordinator(agent_io_, settings);
        result = "welcome " + std::to_string(welcome.node_id);
        if (kept != nullptr) *kept = std::move(welcome);
      } catch (const Refused& refused) {
        result = std::string("refused: ") + refused.what();
      } catch (const std::exception& failed) {
        result = std::string("failed: ") + failed.what();
      }
      asio::post(io_, [&] { done = true; });
    });
    run_until([&] { return done; });
    agent.join();
    return result;
  }
  void run_until(const std::function<bool()>& ready) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!ready() && std::chrono::steady_clock::now() < limit) io_.run_one_until(limit);
    ASSERT_TRUE(ready()) << "never came";
  }
  // Sends bytes as a stranger; returns when the other side has closed.
  void send_raw(const std::string& bytes) {
    tcp::socket socket(io_);
    socket.connect({asio::ip::address_v4::loopback(), links_.port()});
    asio::write(socket, asio::buffer(bytes));
    bool closed = false;
    std::array<char, 4096> buffer;
    std::function<void()> read = [&] {
      socket.async_read_some(asio::buffer(buffer),
                             [&](const boost::system::error_code& failed, std::size_t) {
                               closed = static_cast<bool>(failed);
                               if (!failed) read();
                             });
    };
    read();
    run_until([&] { return closed; });
  }

  asio::io_context io_, agent_io_;
  std::optional<std::uint32_t> returning_;
  std::vector<std::string> met_, heard_, lost_, refused_;
  AgentLinks links_{
      io_,
      "s",
      std::chrono::seconds(60),
      {.on_hello =
           [this](const std::string& node, std::optional<std::uint32_t> returning) {
             if (node == "unwanted") throw std::runtime_error("no agent is expected");
             returning_ = returning;
             met_.push_back(node);
             return static_cast<std::uint32_t>(met_.size() + 6);
           },
       .on_message =
           [this](const std::string& node, const Message& message) {
             heard_.push_back(node + " " + std::string(message.type()));
           },
       .on_lost = [this](const std::string& node,
                         const std::string& why) { lost_.push_back(node + ": " + why); },
       .on_refused = [this](const std::string&,
                            const std::string& why) { refused_.push_back(why); }}};
};

TEST_F(ElasticLinks, AnAgentIsWelcomedHeardAndMissed) {
  Welcome welcome;
  EXPECT_EQ(greet(settings("n1"), &welcome), "welcome 7");
  EXPECT_TRUE(links_.connected("n1"));
  std::string answer;
  welcome.channel->start([&](const Message& message) { answer = message.type(); },
                         [](const std::string&) {});
  welcome.channel->send(Message("ready"));
  welcome.channel->send(Message("ping"));
  run_until([&] {
    agent_io_.restart();
    agent_io_.run_for(std::chrono::milliseconds(5));
    io_.poll();
    return answer == "pong";
  });
  EXPECT_THAT(heard_, ElementsAre("n1 ready"));
  welcome.channel->close();
  run_until([&] { return !lost_.empty(); });
  EXPECT_THAT(lost_, ElementsAre("n1: connection closed by the peer"));
  EXPECT_FALSE(links_.connected("n1"));
}

TEST_F(ElasticLinks, AWrongSecretIsRefusedOnBothSides) {
  EXPECT_EQ(greet(settings("n1", "guess")), "refused: wrong secret");
  EXPECT_THAT(refused_, ElementsAre("wrong secret"));
  EXPECT_THAT(met_, ElementsAre());
}

TEST_F(ElasticLinks, ANodeThatIsNotExpectedOrThereAlreadyIsRefused) {
  Welcome first;
  EXPECT_EQ(greet(settings("unwanted")), "refused: no agent is expected");
  EXPECT_EQ(greet(settings("n1"), &first), "welcome 7");
  EXPECT_EQ(greet(settings("n1")), "refused: node n1 has an agent already");
  EXPECT_TRUE(links_.connected("n1"));
}

// An agent that has lost its launcher ends its ranks at the word of this job's launcher only.
TEST_F(ElasticLinks, ARefusalIsProvedIfTheSecretIsRight) {
  const auto call = [this](const AgentSettings& who) {
    std::optional<GreetingResult> result;
    greet_once(io_, who, who.addresses[0], 3,
               std::chrono::steady_clock::now() + std::chrono::seconds(60),
               [&](GreetingResult got) { result = std::move(got); });
    run_until([&] { return result.has_value(); });
    return *result;
  };
  GreetingResult result = call(settings("unwanted"));
  EXPECT_EQ(result.refused, "no agent is expected");
  EXPECT_TRUE(result.proved);
  result = call(settings("n1", "guess"));
  EXPECT_EQ(result.refused, "wrong secret");
  EXPECT_FALSE(result.proved);
  EXPECT_EQ(returning_, std::nullopt);
  result = call(settings("n1"));
  EXPECT_TRUE(result.channel != nullptr);
  EXPECT_EQ(result.node_id, 7U);
  EXPECT_EQ(returning_, 3U);
  result.channel->close();
  AgentSettings nowhere = settings("n1");
  nowhere.addresses = {"127.0.0.1:1"};
  result = call(nowhere);
  EXPECT_EQ(result.failed, "Connection refused");
  EXPECT_FALSE(result.proved || result.channel);
}

TEST_F(ElasticLinks, AGreetingHasALimit) {
  // Somebody listens there and says nothing.
  tcp::acceptor silent(io_, {asio::ip::address_v4::loopback(), 0});
  AgentSettings who = settings("n1");
  who.addresses = {"127.0.0.1:" + std::to_string(silent.local_endpoint().port())};
  std::optional<GreetingResult> result;
  greet_once(io_, who, who.addresses[0], 3,
             std::chrono::steady_clock::now() + std::chrono::milliseconds(50),
             [&](GreetingResult got) { result = std::move(got); });
  run_until([&] { return result.has_value(); });
  EXPECT_EQ(result->failed, "no answer to the greeting");
}

TEST_F(ElasticLinks, StrangersAreClosedAndHarmNobody) {
  Welcome first;
  EXPECT_EQ(greet(settings("n1"), &first), "welcome 7");
  send_raw("GET / HTTP/1.1\r\n\r\n");
  send_raw(std::string(100000, '\xff'));
  send_raw(protocol::encode(Message("hello")));
  send_raw(protocol::encode(Message("output", "not yet")));
  EXPECT_THAT(refused_, ElementsAre("the first message is not a hello"));
  EXPECT_TRUE(links_.connected("n1"));
  EXPECT_EQ(greet(settings("n2")), "welcome 8");
}

TEST_F(ElasticLinks, AStrangerCannotMakeUsKeepMuch) {
  // The frame of a large message, which never comes to its end.
  const std::array<std::uint32_t, 2> lengths{htonl(16), htonl(200 << 20)};
  send_raw(std::string(reinterpret_cast<const char*>(lengths.data()), 8));
  EXPECT_THAT(met_, ElementsAre());
}

TEST_F(ElasticLinks, APortInUseIsNamedAndARangeGoesOn) {
  const std::uint16_t taken = links_.port();
  AgentLinks other(io_, "s", std::chrono::seconds(60), {});
  try {
    other.listen({taken, taken}, true);
    ADD_FAILURE() << "listens on a port in use";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("port " + std::to_string(taken) + ":"),
                                    HasSubstr("in use"), HasSubstr("--port")));
  }
  if (taken < 65000) {
    AgentLinks next(io_, "s", std::chrono::seconds(60), {});
    next.listen({taken, static_cast<std::uint16_t>(taken + 500)}, true);
    EXPECT_GT(next.port(), taken);
    next.close();
  }
  other.close();
}

TEST(ElasticGreeting, WithoutACoordinatorEveryAddressIsListed) {
  asio::io_context io;
  tcp::acceptor nobody(io, {asio::ip::address_v4::loopback(), 0});
  const std::string port = std::to_string(nobody.local_endpoint().port());
  nobody.close();
  AgentSettings settings;
  settings.secret = "s";
  settings.connect_seconds = 0.5;
  settings.addresses = {"127.0.0.1:" + port, "no-such-host.invalid:1", "nonsense"};
  try {
    greet_coordinator(io, settings);
    ADD_FAILURE() << "greeted nobody";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("cannot reach bellows-run (127.0.0.1:" + port + ": "),
                                    HasSubstr("no-such-host.invalid:1: "), HasSubstr("nonsense"),
                                    HasSubstr("firewall")));
  }
}

TEST(ElasticGreeting, AnAgentDoesNotTrustWhoCannotProveTheSecret) {
  asio::io_context io, server_io;
  tcp::acceptor acceptor(server_io, {asio::ip::address_v4::loopback(), 0});
  AgentSettings settings;
  settings.node = "n1";
  settings.secret = "s";
  settings.connect_seconds = 0.5;
  settings.addresses = {"127.0.0.1:" + std::to_string(acceptor.local_endpoint().port())};
  // Knows the protocol, not the secret; answers each connection the same way.
  std::vector<std::shared_ptr<protocol::Channel>> channels;
  std::function<void()> accept = [&] {
    acceptor.async_accept([&](const boost::system::error_code& failed, tcp::socket socket) {
      if (failed) return;
      channels.push_back(protocol::Channel::over(std::move(socket)));
      protocol::Channel* raw = channels.back().get();
      raw->start(
          [raw](const Message& hello) {
            Message welcome("welcome");
            welcome.head["proof"] = hello.text("proof");  // mirrored
            welcome.head["node_id"] = 1;
            raw->send(welcome);
          },
          [](const std::string&) {});
      raw->send(Challenge().message());
      accept();
    });
  };
  accept();
  std::thread server([&] { server_io.run(); });
  std::string result = "trusted";
  try {
    greet_coordinator(io, settings);
  } catch (const std::runtime_error& error) {
    result = error.what();
  }
  server_io.stop();
  server.join();
  EXPECT_THAT(result, HasSubstr("it does not know this job's secret"));
}

}  // namespace
}  // namespace bellows::elastic
