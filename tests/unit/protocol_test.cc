// SPDX-License-Identifier: Apache-2.0
// Messages: what is sent arrives whole and in order, whatever the pieces; damage is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json.hpp>
#include <random>

#include "protocol/channel.h"
#include "protocol/message.h"
#include "protocol/secret.h"

namespace bellows::protocol {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string frame(std::uint32_t head_size, std::uint32_t body_size, const std::string& rest) {
  const std::array<std::uint32_t, 2> lengths{htonl(head_size), htonl(body_size)};
  return std::string(reinterpret_cast<const char*>(lengths.data()), sizeof lengths) + rest;
}

std::string with_head(const std::string& head) {
  return frame(static_cast<std::uint32_t>(head.size()), 0, head);
}

std::string refusal(const std::string& bytes) {
  Decoder decoder;
  decoder.feed(bytes);
  try {
    return decoder.next() ? "taken" : "waits";
  } catch (const ProtocolError& error) {
    return error.what();
  }
}

Message example() {
  Message message("example", std::string("\0\xff\n{}", 5));
  message.head["text"] = "z\u00e4h";
  message.head["number"] = -7;
  message.head["flag"] = true;
  message.head["list"] = boost::json::array{1, 2};
  message.head["object"] = boost::json::object{{"a", 1}};
  return message;
}

TEST(ProtocolMessage, ArrivesWholeWhereverItsBytesAreSplit) {
  const std::string bytes = encode(example()) + encode(Message("second")) + encode(example());
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    Decoder decoder;
    std::vector<Message> arrived;
    for (const auto& part : {bytes.substr(0, split), bytes.substr(split)}) {
      decoder.feed(part);
      while (auto message = decoder.next()) arrived.push_back(std::move(*message));
    }
    ASSERT_EQ(arrived.size(), 3U) << "split at " << split;
    EXPECT_EQ(arrived[0].head, example().head);
    EXPECT_EQ(arrived[0].body, example().body);
    EXPECT_EQ(arrived[1].type(), "second");
    EXPECT_EQ(arrived[1].body, "");
    EXPECT_EQ(arrived[2].body, example().body);
  }
}

TEST(ProtocolMessage, ArrivesByteByByte) {
  Decoder decoder;
  int arrived = 0;
  for (int round = 0; round < 50; ++round) {
    for (const char byte : encode(example())) {
      decoder.feed({&byte, 1});
      while (auto message = decoder.next()) {
        EXPECT_EQ(message->head, example().head);
        ++arrived;
      }
    }
  }
  EXPECT_EQ(arrived, 50);
}

TEST(ProtocolMessage, MembersAreCheckedByNameAndType) {
  const Message message = example();
  EXPECT_EQ(message.text("text"), "z\u00e4h");
  EXPECT_EQ(message.number("number"), -7);
  EXPECT_TRUE(message.flag("flag"));
  EXPECT_EQ(message.array("list").size(), 2U);
  EXPECT_EQ(message.object("object").size(), 1U);
  const auto refused = [](auto read) -> std::string {
    try {
      read();
    } catch (const ProtocolError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(refused([&] { message.text("absent"); }),
            "message \"example\" has no member \"absent\"");
  EXPECT_THAT(refused([&] { message.text("number"); }), HasSubstr("\"number\" is not a string"));
  EXPECT_THAT(refused([&] { message.number("text"); }),
              HasSubstr("\"text\" is not a whole number"));
  EXPECT_THAT(refused([&] { message.flag("number"); }), HasSubstr("is not true or false"));
  EXPECT_THAT(refused([&] { message.array("object"); }), HasSubstr("is not an array"));
  EXPECT_THAT(refused([&] { message.object("list"); }), HasSubstr("is not an object"));
  Message fraction("example");
  fraction.head["number"] = 0.5;
  EXPECT_THAT(refused([&] { fraction.number("number"); }), HasSubstr("is not a whole number"));
  fraction.head["number"] = 1e300;
  EXPECT_THAT(refused([&] { fraction.number("number"); }), HasSubstr("is not a whole number"));
}

TEST(ProtocolMessage, WithoutATypeHasNone) {
  Message message;
  EXPECT_EQ(message.type(), "");
  message.head["type"] = 3;
  EXPECT_EQ(message.type(), "");
}

TEST(ProtocolMessage, BytesThatAreNoFrameAreRefused) {
  EXPECT_THAT(refusal("GET / HTTP/1.1\r\n\r\n"), HasSubstr("does not speak this protocol"));
  EXPECT_THAT(refusal("SSH-2.0-OpenSSH_9.2\r\n"), HasSubstr("does not speak this protocol"));
  EXPECT_THAT(refusal(std::string(8, '\xff')), HasSubstr("does not speak this protocol"));
  for (const char* head : {"", "{", "[1]", "\"text\"", "{\"type\":}", "{} {}", "{\"a\":1,}"}) {
    EXPECT_THAT(refusal(with_head(head)), HasSubstr("the head is no JSON object")) << head;
  }
  EXPECT_THAT(refusal(with_head(std::string(100000, '['))), HasSubstr("no JSON object"));
  EXPECT_EQ(refusal(with_head("{}")), "taken");
}

TEST(ProtocolMessage, ATooLongFrameIsRefusedBeforeItArrives) {
  EXPECT_THAT(refusal(frame(kMaxHead + 1, 0, "")), HasSubstr("does not speak this protocol"));
  EXPECT_THAT(refusal(frame(2, kMaxBody + 1, "")), HasSubstr("does not speak this protocol"));
  EXPECT_EQ(refusal(frame(kMaxHead, kMaxBody, "")), "waits");
  EXPECT_THROW(encode(Message("x", std::string(kMaxBody + 1, 'x'))), ProtocolError);
  EXPECT_THROW(encode(Message(std::string(kMaxHead, 'x'))), ProtocolError);
}

TEST(ProtocolMessage, AStrangersFrameCanBeLimitedToLess) {
  Decoder decoder;
  decoder.limit(100);
  decoder.feed(encode(Message("small", std::string(50, 'x'))));
  EXPECT_TRUE(decoder.next());
  decoder.feed(frame(50, 51, ""));
  EXPECT_THROW(decoder.next(), ProtocolError);
}

TEST(ProtocolMessage, RandomDamageIsRefusedOrGivesAMessage) {
  std::mt19937 random(1);
  const std::string good = encode(example());
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    Decoder decoder;
    decoder.feed(bytes);
    try {
      if (const auto message = decoder.next()) {
        EXPECT_LE(message->body.size(), bytes.size());
      }
    } catch (const ProtocolError& error) {
      EXPECT_THAT(error.what(), HasSubstr("does not speak this protocol"));
    }
  }
}

TEST(ProtocolPack, UnpackGivesTheSameParts) {
  EXPECT_THAT(unpack(pack({})), testing::IsEmpty());
  const std::vector<std::string> parts{"", "a", std::string(1000, '\0'), "", "\xff"};
  EXPECT_EQ(unpack(pack(parts)), parts);
}

TEST(ProtocolPack, DamageIsRefused) {
  const std::vector<std::string> parts{"abc", "", "defg"};
  const std::string bytes = pack(parts);
  int whole = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    try {
      const auto some = unpack(std::string_view(bytes).substr(0, size));
      EXPECT_TRUE(std::equal(some.begin(), some.end(), parts.begin()));
      ++whole;
    } catch (const ProtocolError& error) {
      EXPECT_THAT(error.what(), HasSubstr("packed bytes end"));
    }
  }
  EXPECT_EQ(whole, 3);  // after none, one and two parts
  EXPECT_THROW(unpack(std::string(4, '\xff') + "x"), ProtocolError);
}

TEST(ProtocolSecret, ProofDependsOnEverything) {
  const std::string good = proof("secret", "agent", "11", "22");
  EXPECT_EQ(good, proof("secret", "agent", "11", "22"));
  EXPECT_EQ(good.size(), 64U);
  for (const std::string& other :
       {proof("Secret", "agent", "11", "22"), proof("secret", "coordinator", "11", "22"),
        proof("secret", "agent", "12", "22"), proof("secret", "agent", "11", "23"),
        proof("secret", "agent", "22", "11"), proof("secret", "agent", "1", "122"),
        proof("", "agent", "11", "22")}) {
    EXPECT_FALSE(same_proof(good, other));
  }
  // As another implementation (Python's hmac) computes it.
  EXPECT_EQ(good, "ef56358fb8ddd8e22b350e42e17e4a4ec865ff9fbcec8869c943bbae402de7e8");
}

TEST(ProtocolSecret, ProofsAreComparedWhole) {
  EXPECT_TRUE(same_proof("abc", "abc"));
  EXPECT_TRUE(same_proof("", ""));
  EXPECT_FALSE(same_proof("abc", "abd"));
  EXPECT_FALSE(same_proof("abc", "ab"));
  EXPECT_FALSE(same_proof("abc", ""));
}

TEST(ProtocolSecret, IsFreshEachTime) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string secret = random_hex();
    EXPECT_EQ(secret.size(), 64U);
    EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos);
    seen.insert(secret);
  }
  EXPECT_EQ(seen.size(), 100U);
}

// Two channels over a pair of sockets, and what each has heard.
class ProtocolChannel : public testing::Test {
 protected:
  struct End {
    std::shared_ptr<Channel> channel;
    std::vector<Message> heard;
    std::vector<std::string> closed;
    void start() {
      channel->start([this](Message message) { heard.push_back(std::move(message)); },
                     [this](const std::string& reason) { closed.push_back(reason); });
    }
  };

  ProtocolChannel() {
    std::array<int, 2> fds{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
    for (int i = 0; i < 2; ++i) {
      ends_[i].channel = std::make_shared<Channel>(
          Channel::Socket(io_, boost::asio::generic::stream_protocol(AF_UNIX, 0), fds[i]));
    }
  }
  // Runs until `ready`; a test that waits for what never comes fails here.
  void run_until(const std::function<bool()>& ready) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    io_.restart();
    while (!ready()) {
      if (io_.run_one_until(limit) == 0) {
        ASSERT_FALSE(io_.stopped() || std::chrono::steady_clock::now() >= limit) << "never came";
      }
    }
  }

  boost::asio::io_context io_;
  std::array<End, 2> ends_;
};

TEST_F(ProtocolChannel, KeepsTheOrderInBothDirections) {
  for (End& end : ends_) end.start();
  for (int i = 0; i < 1000; ++i) {
    Message message("count", std::string(static_cast<std::size_t>(i), 'x'));
    message.head["i"] = i;
    ends_[0].channel->send(message);
    ends_[1].channel->send(message);
  }
  run_until([&] { return ends_[0].heard.size() == 1000 && ends_[1].heard.size() == 1000; });
  for (const End& end : ends_) {
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(end.heard[static_cast<std::size_t>(i)].number("i"), i);
      EXPECT_EQ(end.heard[static_cast<std::size_t>(i)].body.size(), static_cast<std::size_t>(i));
    }
  }
  run_until([&] { return ends_[0].channel->queued_bytes() == 0; });
}

TEST_F(ProtocolChannel, CarriesBigMessages) {
  for (End& end : ends_) end.start();
  std::string big(std::size_t{40} << 20, '\0');
  std::mt19937 random(7);
  for (std::size_t i = 0; i < big.size(); i += 1000) big[i] = static_cast<char>(random());
  ends_[0].channel->send(Message("big", big));
  EXPECT_GT(ends_[0].channel->queued_bytes(), big.size());
  run_until([&] { return !ends_[1].heard.empty(); });
  EXPECT_TRUE(ends_[1].heard[0].body == big);
}

TEST_F(ProtocolChannel, TellsOnceThatThePeerHasClosed) {
  ends_[1].start();
  ends_[0].channel->send(Message("last"));
  ends_[0].channel->close_when_sent();
  ends_[0].channel->send(Message("too late"));
  run_until([&] { return !ends_[1].closed.empty(); });
  ASSERT_EQ(ends_[1].heard.size(), 1U);
  EXPECT_EQ(ends_[1].heard[0].type(), "last");
  EXPECT_THAT(ends_[1].closed, ElementsAre("connection closed by the peer"));
  EXPECT_FALSE(ends_[1].channel->is_open());
  ends_[1].channel->send(Message("to nobody"));
  EXPECT_EQ(ends_[1].channel->queued_bytes(), 0U);
}

TEST_F(ProtocolChannel, IsSilentAfterItsOwnClose) {
  for (End& end : ends_) end.start();
  ends_[0].channel->send(Message("unheard"));
  ends_[1].channel->close();
  run_until([&] { return !ends_[0].closed.empty(); });
  io_.restart();
  io_.run();
  EXPECT_TRUE(ends_[1].heard.empty());
  EXPECT_TRUE(ends_[1].closed.empty());
}

TEST_F(ProtocolChannel, AHandlerCanHandOverToAnother) {
  ends_[0].start();
  std::vector<std::string> first, second;
  ends_[1].channel->start(
      [&](const Message& message) {
        first.emplace_back(message.type());
        ends_[1].channel->start([&](const Message& m) { second.emplace_back(m.type()); },
                                [&](const std::string& reason) { second.push_back(reason); });
      },
      [&](const std::string& reason) { first.push_back(reason); });
  for (const char* type : {"a", "b", "c"}) ends_[0].channel->send(Message(type));
  ends_[0].channel->close_when_sent();
  run_until([&] { return second.size() == 3; });
  EXPECT_THAT(first, ElementsAre("a"));
  EXPECT_THAT(second, ElementsAre("b", "c", "connection closed by the peer"));
}

TEST_F(ProtocolChannel, AHandlerThatRejectsAMessageEndsTheConnection) {
  ends_[0].start();
  int heard = 0;
  std::string reason;
  ends_[1].channel->start(
      [&](const Message& message) {
        ++heard;
        message.text("absent");
      },
      [&](const std::string& why) { reason = why; });
  ends_[0].channel->send(Message("a"));
  ends_[0].channel->send(Message("b"));
  run_until([&] { return !reason.empty() && !ends_[0].closed.empty(); });
  EXPECT_EQ(heard, 1);
  EXPECT_EQ(reason, "message \"a\" has no member \"absent\"");
}

TEST_F(ProtocolChannel, AHandlerCanClose) {
  ends_[0].start();
  int heard = 0;
  ends_[1].channel->start(
      [&](const Message&) {
        ++heard;
        ends_[1].channel->close();
      },
      [&](const std::string&) { ADD_FAILURE() << "closed by ourselves"; });
  ends_[0].channel->send(Message("a"));
  ends_[0].channel->send(Message("b"));
  run_until([&] { return !ends_[0].closed.empty(); });
  EXPECT_EQ(heard, 1);
}

TEST(ProtocolChannelRaw, GarbageEndsTheConnectionWithTheReason) {
  boost::asio::io_context io;
  std::array<int, 2> fds{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  const auto channel = std::make_shared<Channel>(
      Channel::Socket(io, boost::asio::generic::stream_protocol(AF_UNIX, 0), fds[0]));
  EXPECT_EQ(channel->remote_address(), "");
  std::string reason;
  channel->start([](const Message&) { ADD_FAILURE() << "garbage became a message"; },
                 [&](const std::string& why) { reason = why; });
  const std::string garbage = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(write(fds[1], garbage.data(), garbage.size()), static_cast<ssize_t>(garbage.size()));
  io.run();
  EXPECT_THAT(reason, HasSubstr("does not speak this protocol"));
  EXPECT_FALSE(channel->is_open());
  close(fds[1]);
}

}  // namespace
}  // namespace bellows::protocol
