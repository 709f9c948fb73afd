// SPDX-License-Identifier: Apache-2.0
// Requests to a running job: each gets its answer, and no client can hurt the launcher.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <atomic>
#include <random>

#include "scheduler/command/control_client.h"
#include "tests/unit/control_fixture.h"

namespace bellows::test {
namespace {

using scheduler::ControlClient;
using scheduler::NoAnswer;
using scheduler::Overdue;
using testing::HasSubstr;
using Reply = ControlServer::Reply;

void echo(const Message& asked, const Reply& reply) { reply(done(asked.text("text"))); }

Message say(const std::string& text) {
  Message message("say");
  message.head["text"] = text;
  return message;
}

std::string answer_of(const std::string& path, const Message& asked) {
  const Message answer = ControlClient(path).ask(asked, kPlenty);
  return answer.type() == "done" ? answer.text("text") : "refused: " + answer.text("reason");
}

std::string failure_of(const std::string& path, const Message& asked,
                       std::chrono::milliseconds limit = kPlenty) {
  try {
    const Message answer = ControlClient(path).ask(asked, limit);
    return "answered: " + std::string(answer.type());
  } catch (const Overdue& overdue) {
    return std::string("overdue: ") + overdue.what();
  } catch (const NoAnswer& none) {
    return std::string("none: ") + none.what();
  }
}

// A launcher that answers when it is told to.
class Patient {
 public:
  explicit Patient(ControlLimits limits = {})
      : launcher(
            "1",
            [this](const Message&, Reply reply) {
              replies.push_back(std::move(reply));
              ++asked;
            },
            limits) {}
  void await(int count) {
    while (asked < count) std::this_thread::yield();
  }
  std::atomic<int> asked = 0;
  std::vector<Reply> replies;  // on the launcher's thread
  Launcher launcher;
};

TEST_F(ControlTest, ARequestGetsItsAnswer) {
  const Launcher launcher("4711", echo);
  EXPECT_EQ(launcher.path(), socket_of("4711"));
  EXPECT_EQ(answer_of(launcher.path(), say("hello")), "hello");
  EXPECT_EQ(answer_of(launcher.path(), say(std::string(200'000, 'x'))), std::string(200'000, 'x'));
}

TEST_F(ControlTest, AnswersMayComeLaterAndInAnyOrder) {
  Patient patient;
  auto first =
      std::async(std::launch::async, [&] { return answer_of(patient.launcher.path(), say("")); });
  patient.await(1);
  auto second =
      std::async(std::launch::async, [&] { return answer_of(patient.launcher.path(), say("")); });
  patient.await(2);
  patient.launcher.run([&] { patient.replies[1](done("second")); });
  EXPECT_EQ(second.get(), "second");
  patient.launcher.run([&] {
    patient.replies[0](done("first"));
    patient.replies[0](done("once more"));
  });
  EXPECT_EQ(first.get(), "first");
}

TEST_F(ControlTest, ABigAnswerArrivesWhole) {
  const std::string big(5'000'000, 'x');
  const Launcher launcher("1", [&](const Message&, const Reply& reply) { reply(done(big)); });
  EXPECT_EQ(answer_of(launcher.path(), say("")), big);
}

TEST_F(ControlTest, AnAnswerThatIsTooBigIsRefused) {
  const Launcher launcher("1", [](const Message&, const Reply& reply) {
    reply(done(std::string(protocol::kMaxHead + 1, 'x')));
  });
  EXPECT_THAT(answer_of(launcher.path(), say("")),
              HasSubstr("refused: message \"done\" is too long"));
}

TEST_F(ControlTest, WhatTheHandlerThrowsIsTheReason) {
  const Launcher launcher("1", [](const Message& asked, const Reply&) {
    throw std::runtime_error("no such thing as " + asked.text("text"));
  });
  EXPECT_EQ(answer_of(launcher.path(), say("magic")), "refused: no such thing as magic");
  EXPECT_EQ(answer_of(launcher.path(), Message("resize")),
            "refused: message \"resize\" has no member \"text\"");
}

TEST_F(ControlTest, AnotherVersionIsRefused) {
  const Launcher launcher("1", echo);
  RawClient client(launcher.path());
  Message other = say("x");
  other.head["version"] = protocol::kVersion + 1;
  client.send(protocol::encode(other));
  EXPECT_THAT(client.receive()->text("reason"), HasSubstr("use the same Bellows"));
  RawClient without(launcher.path());
  without.send(protocol::encode(say("x")));
  EXPECT_THAT(without.receive()->text("reason"), HasSubstr("no member \"version\""));
}

TEST_F(ControlTest, ManyClientsAtOnceAreAllAnswered) {
  const Launcher launcher("1", echo);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = std::to_string(t) + "." + std::to_string(i);
        if (answer_of(launcher.path(), say(text)) == text) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 400);
}

TEST_F(ControlTest, OneClientDoesNotWaitForAnother) {
  const Launcher launcher("1", echo);
  const RawClient silent(launcher.path());
  const RawClient slow(launcher.path());
  slow.send(protocol::encode(say("x")).substr(0, 7));
  EXPECT_EQ(answer_of(launcher.path(), say("meanwhile")), "meanwhile");
}

TEST_F(ControlTest, GarbageEndsTheConnectionAndNothingElse) {
  const Launcher launcher("1", echo);
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(8 + random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    bytes[0] |= '\x40';  // a head that is too long
    RawClient client(launcher.path());
    client.send(bytes);
    EXPECT_TRUE(client.is_dropped());
  }
  for (const std::string head : {"", "{", "[]", "3", "{\"type\":}"}) {
    Message message;
    std::string frame(8, '\0');
    frame[3] = static_cast<char>(head.size());
    RawClient client(launcher.path());
    client.send(frame + head);
    EXPECT_TRUE(client.is_dropped()) << head;
  }
  std::string deep = "{\"version\":" + std::string(10'000, '[');
  std::string frame(8, '\0');
  frame[2] = static_cast<char>(deep.size() >> 8);
  frame[3] = static_cast<char>(deep.size());
  RawClient client(launcher.path());
  client.send(frame + deep);
  EXPECT_TRUE(client.is_dropped());
  EXPECT_EQ(answer_of(launcher.path(), say("still here")), "still here");
}

TEST_F(ControlTest, ARequestThatIsTooBigEndsTheConnection) {
  ControlLimits limits;
  limits.request_bytes = 1000;
  const Launcher launcher("1", echo, limits);
  EXPECT_THAT(failure_of(launcher.path(), say(std::string(10'000'000, 'x'))),
              HasSubstr("none: bellows-run closed the connection"));
  EXPECT_EQ(answer_of(launcher.path(), say("small")), "small");
}

TEST_F(ControlTest, ASecondRequestBeforeTheAnswerEndsTheConnection) {
  Patient patient;
  RawClient client(patient.launcher.path());
  client.send(protocol::encode(request("status")) + protocol::encode(request("status")));
  EXPECT_TRUE(client.is_dropped());
  EXPECT_EQ(patient.asked, 1);
}

TEST_F(ControlTest, AClientThatSendsNoWholeRequestIsDropped) {
  ControlLimits limits;
  limits.patience = std::chrono::milliseconds(50);
  Patient patient(limits);
  RawClient silent(patient.launcher.path());
  EXPECT_TRUE(silent.is_dropped());
  RawClient half(patient.launcher.path());
  half.send(protocol::encode(request("status")).substr(0, 20));
  EXPECT_TRUE(half.is_dropped());
  EXPECT_EQ(patient.asked, 0);
}

TEST_F(ControlTest, AWaitForTheAnswerIsNotLimitedByTheLauncher) {
  ControlLimits limits;
  limits.patience = std::chrono::milliseconds(50);
  Patient patient(limits);
  auto waiting =
      std::async(std::launch::async, [&] { return answer_of(patient.launcher.path(), say("")); });
  patient.await(1);
  RawClient silent(patient.launcher.path());
  EXPECT_TRUE(silent.is_dropped());  // so the time is over
  patient.launcher.run([&] { patient.replies[0](done("at last")); });
  EXPECT_EQ(waiting.get(), "at last");
}

TEST_F(ControlTest, AClientThatDoesNotTakeItsAnswerIsDropped) {
  ControlLimits limits;
  limits.patience = std::chrono::milliseconds(50);
  limits.clients = 1;
  std::atomic<int> asked = 0;
  const Launcher launcher(
      "1",
      [&](const Message&, const Reply& reply) {
        reply(done(std::string(asked++ == 0 ? 8'000'000 : 2, 'x')));
      },
      limits);
  RawClient lazy(launcher.path());
  lazy.send(protocol::encode(request("status")));
  while (asked == 0) std::this_thread::yield();
  std::string answer;
  while (answer != "xx") answer = answer_of(launcher.path(), say(""));  // "too many" at first
  EXPECT_TRUE(lazy.is_dropped());
}

TEST_F(ControlTest, TooManyClientsAreToldSo) {
  ControlLimits limits;
  limits.clients = 2;
  Patient patient(limits);
  std::optional<RawClient> first(patient.launcher.path());
  const RawClient second(patient.launcher.path());
  first->send(protocol::encode(request("status")));
  second.send(protocol::encode(request("status")));
  patient.await(2);
  EXPECT_EQ(answer_of(patient.launcher.path(), say("")), "refused: too many requests are open (2)");
  first.reset();
  std::future<std::string> third;
  std::string answer = "refused: too many";
  while (answer.starts_with("refused: too many")) {
    third =
        std::async(std::launch::async, [&] { return answer_of(patient.launcher.path(), say("")); });
    while (patient.asked < 3 &&
           third.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    }
    if (patient.asked == 3) patient.launcher.run([&] { patient.replies[2](done("third")); });
    answer = third.get();
  }
  EXPECT_EQ(answer, "third");
}

TEST_F(ControlTest, AClientThatGoesAwayIsNoError) {
  Patient patient;
  for (int i = 0; i < 20; ++i) {
    const RawClient client(patient.launcher.path());
    client.send(protocol::encode(request("status")));
    patient.await(i + 1);
  }
  patient.launcher.run([&] {
    for (const Reply& reply : patient.replies) reply(done("nobody hears it"));
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(RawClient(patient.launcher.path()).connected());
}

TEST_F(ControlTest, WhatIsOpenWhenTheJobEndsIsAnsweredAtOnce) {
  boost::asio::io_context io;
  std::vector<Reply> replies;
  std::optional<ControlServer> server(std::in_place, io, "1", [&](const Message&, Reply reply) {
    replies.push_back(std::move(reply));
  });
  RawClient silent(server->path()), waiting(server->path());  // accepted in this order
  waiting.send(protocol::encode(request("resize")));
  while (replies.empty()) io.run_one();
  server->close();  // and the io_context does not run any more
  EXPECT_EQ(waiting.receive()->text("reason"), "the job is ending");
  EXPECT_TRUE(waiting.is_dropped());
  EXPECT_TRUE(silent.is_dropped());
  EXPECT_FALSE(fs::exists(socket_of("1")));
  server.reset();
  replies[0](done("too late"));
  io.restart();
  io.run();  // nothing is left that would keep it
}

TEST_F(ControlTest, AHandlerMayEndTheServer) {
  boost::asio::io_context io;
  std::optional<ControlServer> server;
  server.emplace(io, "1", [&](const Message&, const Reply& reply) {
    server.reset();
    reply(done("too late"));
  });
  RawClient client(server->path());
  client.send(protocol::encode(request("resize")));
  io.run();
  EXPECT_EQ(client.receive()->text("reason"), "the job is ending");
}

// ---- the client ---------------------------------------------------------------------------------

TEST_F(ControlTest, TheClientGivesUpInTime) {
  Patient patient;
  const auto limit = std::chrono::milliseconds(30);
  EXPECT_THAT(failure_of(patient.launcher.path(), say(""), limit),
              HasSubstr("overdue: bellows-run has not answered within 0 s"));
  EXPECT_THAT(failure_of(patient.launcher.path(), say(""), std::chrono::milliseconds(1500)),
              HasSubstr("within 1.5 s"));
}

TEST_F(ControlTest, TheClientSaysWhatIsMissing) {
  EXPECT_THAT(failure_of(socket_of("1"), say("")), HasSubstr("none: no bellows-run listens at"));
  {
    const Launcher launcher("1", echo);
  }
  EXPECT_THAT(failure_of(socket_of("1"), say("")), HasSubstr("none: no bellows-run listens at"));
  EXPECT_THROW(ControlClient(std::string(200, 'x')).ask(say(""), kPlenty), std::runtime_error);
}

}  // namespace
}  // namespace bellows::test
