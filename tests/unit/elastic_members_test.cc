// SPDX-License-Identifier: Apache-2.0
// What bellows-run keeps in mind: members, epochs of the world, collectives and names in progress.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "mpi_elastic/common/membership.h"
#include "mpi_elastic/common/rendezvous.h"
#include "mpi_elastic/common/silence.h"
#include "mpi_elastic/common/world_spec.h"
#include "mpi_elastic/coordinator/name_service.h"
#include "protocol/message.h"

namespace bellows::elastic {
namespace {

using protocol::ProtocolError;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace json = boost::json;

// Two ranks on each of three nodes: members 1 to 6, ranks 0 to 5 of "job@1".
class ElasticMembers : public testing::Test {
 protected:
  ElasticMembers() {
    for (const char* node : {"n2", "n1", "n3"}) {
      members_.add_node(node);
      members_.add_member(node);
      members_.add_member(node);
    }
    members_.declare_epoch();
  }
  Membership members_{"job"};
};

TEST_F(ElasticMembers, RanksFollowTheOrderInWhichNodesCame) {
  const WorldSpec& world = *members_.world("job@1");
  EXPECT_EQ(world.epoch, 1U);
  EXPECT_THAT(world.members, ElementsAre(1, 2, 3, 4, 5, 6));
  ASSERT_EQ(world.nodes.size(), 3U);
  EXPECT_EQ(world.nodes[0].name, "n2");
  EXPECT_EQ(world.nodes[1].name, "n1");
  EXPECT_EQ(world.nodes[1].first, 2U);
  EXPECT_EQ(world.nodes[1].count, 2U);
  EXPECT_EQ(world.node_of(3)->name, "n1");
  EXPECT_EQ(world.node_of(6), nullptr);
  EXPECT_EQ(world.node_of(-1), nullptr);
  EXPECT_EQ(world.share_of("n4"), nullptr);
}

TEST_F(ElasticMembers, AMemberEndsOnce) {
  EXPECT_EQ(members_.alive(), 6U);
  members_.set_running(1);
  EXPECT_EQ(members_.member(1)->state, MemberState::running);
  EXPECT_TRUE(members_.end_member(1, MemberState::finished));
  EXPECT_FALSE(members_.end_member(1, MemberState::dead));
  EXPECT_EQ(members_.member(1)->state, MemberState::finished);
  members_.set_running(1);
  EXPECT_EQ(members_.member(1)->state, MemberState::finished);
  EXPECT_FALSE(members_.end_member(99, MemberState::dead));
  EXPECT_EQ(members_.member(99), nullptr);
  EXPECT_EQ(members_.alive(), 5U);
}

TEST_F(ElasticMembers, ALostNodeTakesItsMembersWithIt) {
  members_.end_member(3, MemberState::finished);
  EXPECT_THAT(members_.lose_node("n1"), ElementsAre(4));
  EXPECT_THAT(members_.lose_node("n1"), IsEmpty());
  EXPECT_FALSE(members_.has_node("n1"));
  EXPECT_EQ(members_.alive(), 4U);
  EXPECT_THROW(members_.add_member("n1"), std::runtime_error);
  EXPECT_TRUE(members_.gone({"job@1", 2}));
  EXPECT_TRUE(members_.gone({"job@1", 3}));
  EXPECT_FALSE(members_.gone({"job@1", 0}));
  EXPECT_TRUE(members_.gone({"job@1", 6}));
  EXPECT_TRUE(members_.gone({"other@1", 0}));
}

TEST_F(ElasticMembers, ANewEpochHasTheLivingAndTheNew) {
  members_.end_member(1, MemberState::dead);
  members_.lose_node("n1");
  const std::uint32_t again = members_.add_node("n1");
  EXPECT_EQ(again, 3U);  // ids are never used again
  members_.add_member("n1");
  const WorldSpec& world = members_.declare_epoch();
  EXPECT_EQ(world.nspace, "job@2");
  EXPECT_THAT(world.members, ElementsAre(2, 5, 6, 7));
  EXPECT_EQ(world.nodes.back().name, "n1");
  EXPECT_EQ(world.nodes.back().id, 3U);
  EXPECT_EQ(members_.newest_proc(2), (Proc{"job@2", 0}));
  EXPECT_EQ(members_.newest_proc(7), (Proc{"job@2", 3}));
  EXPECT_EQ(members_.newest_proc(1), std::nullopt);
  EXPECT_THAT(members_.procs_of(2), ElementsAre(Proc{"job@1", 1}, Proc{"job@2", 0}));
  EXPECT_THAT(members_.procs_of(1), ElementsAre(Proc{"job@1", 0}));
  EXPECT_FALSE(members_.gone({"job@1", 1}));  // another name of a living member
}

TEST_F(ElasticMembers, JoinersAndLeaversAreAliveButInNoNewWorld) {
  members_.set_state(1, MemberState::leaving);
  const std::uint64_t joiner = members_.add_member("n1");
  members_.set_state(joiner, MemberState::joining);
  const WorldSpec& world = members_.declare_epoch();
  EXPECT_THAT(world.members, ElementsAre(2, 3, 4, 5, 6));
  EXPECT_EQ(members_.alive(), 7U);
  EXPECT_THAT(members_.members_in(MemberState::leaving), ElementsAre(1));
  EXPECT_THAT(members_.members_on("n1"), ElementsAre(3, 4, joiner));
  EXPECT_FALSE(members_.gone({"job@1", 0}));
  members_.set_state(joiner, MemberState::running);
  EXPECT_THAT(members_.declare_epoch().members, ElementsAre(2, 3, 4, joiner, 5, 6));
  members_.end_member(1, MemberState::finished);
  members_.set_state(1, MemberState::running);  // nobody comes back from the dead
  EXPECT_EQ(members_.member(1)->state, MemberState::finished);
}

TEST_F(ElasticMembers, OldEpochsAreForgotten) {
  members_.declare_epoch();
  members_.declare_epoch();
  EXPECT_THAT(members_.forget_before(3), ElementsAre("job@1", "job@2"));
  EXPECT_THAT(members_.forget_before(3), IsEmpty());
  EXPECT_EQ(members_.world("job@1"), nullptr);
  EXPECT_EQ(members_.newest()->epoch, 3U);
  EXPECT_TRUE(members_.gone({"job@1", 0}));
  EXPECT_THAT(members_.procs_of(1), ElementsAre(Proc{"job@3", 0}));
}

TEST_F(ElasticMembers, AnEpochNeedsSomeone) {
  for (const char* node : {"n1", "n2", "n3"}) members_.lose_node(node);
  EXPECT_THROW(members_.declare_epoch(), std::runtime_error);
}

TEST(ElasticEpochs, EndWhereOpenMpiCannotTellThemApart) {
  Membership members("job");
  members.add_node("n1");
  members.add_member("n1");
  std::string last;
  for (int i = 0; i < 65535; ++i) last = members.declare_epoch().nspace;
  EXPECT_EQ(last, "job@65535");
  EXPECT_THROW(members.declare_epoch(), std::runtime_error);
}

// ---- collectives --------------------------------------------------------------------------------

class ElasticRendezvous : public ElasticMembers {
 protected:
  using Results = std::vector<CollectiveResult>;
  Results give(const std::string& node, CollectiveKind kind, const std::string& key,
               std::vector<Proc> procs, const std::string& data = "") {
    return rendezvous_.contribute(node, {kind, key, std::move(procs), data});
  }
  Results fence(const std::string& node, const std::string& data = "") {
    return give(node, CollectiveKind::fence, "fence", {{"job@1", kAllRanks}}, data);
  }
  Rendezvous rendezvous_{members_};
};

TEST_F(ElasticRendezvous, NothingEndsWellInADoomedWorld) {
  EXPECT_THAT(fence("n1"), IsEmpty());
  const Results failed = rendezvous_.doom("job@1");
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_TRUE(failed[0].member_dead);
  EXPECT_THAT(failed[0].nodes, ElementsAre("n1"));
  const Results late = fence("n2");
  ASSERT_EQ(late.size(), 1U);
  EXPECT_TRUE(late[0].member_dead);
  members_.declare_epoch();
  EXPECT_THAT(give("n1", CollectiveKind::fence, "next", {{"job@2", kAllRanks}}), IsEmpty());
}

TEST_F(ElasticRendezvous, AFenceEndsWhenEveryNodeIsIn) {
  EXPECT_THAT(fence("n3", "c"), IsEmpty());
  EXPECT_THAT(fence("n1", "a"), IsEmpty());
  const Results results = fence("n2", "b");
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].key, "fence");
  EXPECT_FALSE(results[0].member_dead);
  EXPECT_EQ(results[0].data, "abc");
  EXPECT_THAT(results[0].nodes, ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(fence("n1"), IsEmpty());  // the next one starts anew
  EXPECT_THAT(rendezvous_.recheck(), IsEmpty());
}

TEST_F(ElasticRendezvous, AFenceOfSomeWaitsForTheirNodesOnly) {
  const std::vector<Proc> two{{"job@1", 0}, {"job@1", 5}};
  EXPECT_THAT(give("n2", CollectiveKind::fence, "some", two), IsEmpty());
  EXPECT_EQ(give("n3", CollectiveKind::fence, "some", two).size(), 1U);
}

TEST_F(ElasticRendezvous, AFenceGoesOnWithoutTheDead) {
  fence("n1", "a");
  fence("n2", "b");
  members_.end_member(5, MemberState::dead);
  EXPECT_THAT(rendezvous_.recheck(), IsEmpty());  // another rank of n3 lives
  members_.end_member(6, MemberState::dead);
  const Results results = rendezvous_.recheck();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_FALSE(results[0].member_dead);
  EXPECT_EQ(results[0].data, "ab");
  // A later fence does not wait for them at all.
  fence("n1");
  EXPECT_EQ(fence("n2").size(), 1U);
}

TEST_F(ElasticRendezvous, AFenceCountsFinishedRanksAsGone) {
  members_.end_member(1, MemberState::finished);
  members_.end_member(2, MemberState::finished);
  fence("n1");
  EXPECT_EQ(fence("n3").size(), 1U);
}

class ElasticRendezvousOfAll : public ElasticRendezvous,
                               public testing::WithParamInterface<CollectiveKind> {};

TEST_P(ElasticRendezvousOfAll, FailsForThoseWhoWaitWhenAMemberDies) {
  const std::vector<Proc> all{{"job@1", kAllRanks}};
  give("n1", GetParam(), "k", all, "secret data");
  members_.end_member(5, MemberState::dead);
  const Results results = rendezvous_.recheck();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(results[0].member_dead);
  EXPECT_THAT(results[0].nodes, ElementsAre("n1"));
  EXPECT_EQ(results[0].data, "");
}

TEST_P(ElasticRendezvousOfAll, FailsAtOnceForThoseWhoComeLater) {
  const std::vector<Proc> all{{"job@1", kAllRanks}};
  members_.end_member(5, MemberState::dead);
  for (const char* node : {"n1", "n2"}) {
    const Results results = give(node, GetParam(), "k", all);
    ASSERT_EQ(results.size(), 1U);
    EXPECT_TRUE(results[0].member_dead);
    EXPECT_THAT(results[0].nodes, ElementsAre(node));
  }
}

TEST_P(ElasticRendezvousOfAll, FailsForAnUnknownNamespace) {
  const Results results = give("n1", GetParam(), "k", {{"job@1", 0}, {"other@1", kAllRanks}});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(results[0].member_dead);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ElasticRendezvousOfAll,
                         testing::Values(CollectiveKind::connect, CollectiveKind::group),
                         [](const auto& kind) { return std::string(to_text(kind.param)); });

TEST_F(ElasticRendezvous, DisconnectGoesOnWithoutTheDead) {
  const std::vector<Proc> all{{"job@1", kAllRanks}};
  members_.lose_node("n3");
  give("n1", CollectiveKind::disconnect, "d", all);
  const Results results = give("n2", CollectiveKind::disconnect, "d", all);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_FALSE(results[0].member_dead);
}

TEST_F(ElasticRendezvous, SeveralAtOnceDoNotMix) {
  const std::vector<Proc> all{{"job@1", kAllRanks}};
  for (const char* node : {"n1", "n2"}) {
    fence(node, std::string("f") + node);
    give(node, CollectiveKind::group, "g", all, std::string("g") + node);
    give(node, CollectiveKind::connect, "c", all);
  }
  const Results group = give("n3", CollectiveKind::group, "g", all, "gn3");
  ASSERT_EQ(group.size(), 1U);
  EXPECT_EQ(group[0].data, "gn1gn2gn3");
  // The rest ends together when a node goes: the fence in order, the connection failed.
  members_.lose_node("n3");
  const Results rest = rendezvous_.recheck();
  ASSERT_EQ(rest.size(), 2U);
  for (const CollectiveResult& result : rest) {
    EXPECT_EQ(result.member_dead, result.kind == CollectiveKind::connect);
  }
  EXPECT_THAT(rendezvous_.recheck(), IsEmpty());
}

TEST_F(ElasticRendezvous, GroupsGetDifferentContexts) {
  const std::vector<Proc> one{{"job@1", 0}};
  const auto first = give("n2", CollectiveKind::group, "g", one);
  const auto second = give("n2", CollectiveKind::group, "g", one);
  ASSERT_EQ(first.size() + second.size(), 2U);
  EXPECT_NE(first[0].context, second[0].context);
  EXPECT_NE(first[0].context, 0U);
}

TEST(ElasticCollectiveKind, HasANameForEach) {
  for (const char* name : {"fence", "connect", "disconnect", "group"}) {
    EXPECT_EQ(to_text(collective_kind(name)), name);
  }
  EXPECT_THROW(collective_kind("barrier"), ProtocolError);
}

// ---- names --------------------------------------------------------------------------------------

Lookup lookup(const char* node, std::uint64_t request, std::vector<std::string> keys, bool wait,
              Proc who = {"job@1", 0}) {
  return {node, request, std::move(who), std::move(keys), wait};
}

TEST(ElasticNames, WhatIsPublishedIsFound) {
  NameService names;
  names.publish({"job@1", 1}, {"a", "b"}, {"1", "2"}, false);
  const auto answers = names.look_up(lookup("n1", 7, {"b", "absent", "a"}, false));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0].found);
  EXPECT_EQ(answers[0].node, "n1");
  EXPECT_EQ(answers[0].request, 7U);
  EXPECT_THAT(answers[0].keys, ElementsAre("b", "a"));
  EXPECT_THAT(answers[0].values, ElementsAre("2", "1"));
  EXPECT_EQ(names.look_up(lookup("n1", 8, {"a"}, true)).size(), 1U);
}

TEST(ElasticNames, AnAbsentKeyIsAnsweredUnlessTheCallerWaits) {
  NameService names;
  const auto answers = names.look_up(lookup("n1", 1, {"a"}, false));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_FALSE(answers[0].found);
  EXPECT_THAT(names.look_up(lookup("n1", 2, {"a", "b"}, true)), IsEmpty());
  EXPECT_THAT(names.look_up(lookup("n2", 3, {"b"}, true)), IsEmpty());
  EXPECT_THAT(names.publish({"job@1", 1}, {"a"}, {"1"}, false), IsEmpty());
  const auto late = names.publish({"job@1", 1}, {"b"}, {"2"}, false);
  ASSERT_EQ(late.size(), 2U);
  EXPECT_EQ(late[0].request, 2U);
  EXPECT_THAT(late[0].values, ElementsAre("1", "2"));
  EXPECT_EQ(late[1].node, "n2");
  EXPECT_THAT(names.publish({"job@1", 1}, {"b"}, {"3"}, false), IsEmpty());
}

TEST(ElasticNames, AValueForOneReaderIsReadOnce) {
  NameService names;
  names.look_up(lookup("n1", 1, {"a"}, true));
  names.look_up(lookup("n1", 2, {"a"}, true));
  const auto first = names.publish({"job@1", 1}, {"a"}, {"1"}, true);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].request, 1U);
  const auto second = names.publish({"job@1", 1}, {"a"}, {"2"}, true);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_THAT(second[0].values, ElementsAre("2"));
  EXPECT_FALSE(names.look_up(lookup("n1", 3, {"a"}, false))[0].found);
}

TEST(ElasticNames, UnpublishTakesBackSomeOrAll) {
  NameService names;
  names.publish({"job@1", 1}, {"a", "b", "c"}, {"1", "2", "3"}, false);
  names.publish({"job@1", 2}, {"d"}, {"4"}, false);
  names.unpublish({"job@1", 1}, {"a"});
  EXPECT_THAT(names.look_up(lookup("n1", 1, {"a", "b", "c", "d"}, false))[0].keys,
              ElementsAre("b", "c", "d"));
  names.unpublish({"job@1", 1}, {});
  EXPECT_THAT(names.look_up(lookup("n1", 1, {"a", "b", "c", "d"}, false))[0].keys,
              ElementsAre("d"));
}

TEST(ElasticNames, NobodyWaitsForTheDead) {
  NameService names;
  const Proc asks{"job@1", 0}, dead{"job@2", 1};
  names.look_up(lookup("n1", 1, {"job@2:port"}, true, asks));
  names.look_up(lookup("n1", 2, {"job@22:port"}, true, asks));
  names.look_up(lookup("n1", 3, {"job@2:port"}, true, dead));          // asked by the dead
  names.look_up(lookup("n1", 4, {"job@2:port"}, true, {"job@2", 0}));  // its own world: may come
  const auto answers = names.forget({dead});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].request, 1U);
  EXPECT_FALSE(answers[0].found);
  const auto late = names.publish({"job@2", 0}, {"job@2:port"}, {"x"}, false);
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].request, 4U);
}

// ---- silence ------------------------------------------------------------------------------------

using namespace std::chrono_literals;

TEST(ElasticSilence, IsNoticedAfterTheLimit) {
  const SilenceWatch::Clock::time_point start{1h};
  SilenceWatch watch(8s, start);
  EXPECT_EQ(watch.interval(), 1s);
  for (auto now = start; now <= start + 8s; now += 1s) {
    watch.tick(now);
    EXPECT_FALSE(watch.silent(start));
  }
  watch.tick(start + 9s);
  EXPECT_TRUE(watch.silent(start));
  EXPECT_FALSE(watch.silent(start + 2s));
}

TEST(ElasticSilence, AJumpOfTheOwnClockGivesPeersANewStart) {
  const SilenceWatch::Clock::time_point start{1h};
  SilenceWatch watch(8s, start);
  watch.tick(start + 1s);
  auto now = start + 1h;  // suspended meanwhile
  watch.tick(now);
  EXPECT_FALSE(watch.silent(start));
  for (int i = 0; i < 8; ++i) watch.tick(now += 1s);
  EXPECT_FALSE(watch.silent(start));
  watch.tick(now += 1s);
  EXPECT_TRUE(watch.silent(start));  // and it is silent still
}

TEST(ElasticSilence, ShortLimitsAreWatchedMoreOften) {
  EXPECT_EQ(SilenceWatch(80ms).interval(), 10ms);
  EXPECT_EQ(SilenceWatch(1h).interval(), 1s);
}

// ---- on the wire --------------------------------------------------------------------------------

TEST_F(ElasticMembers, AWorldSurvivesTheWire) {
  const WorldSpec& world = *members_.world("job@1");
  const WorldSpec copy =
      world_spec_from_json(json::parse(json::serialize(to_json(world))).as_object());
  EXPECT_EQ(copy.nspace, world.nspace);
  EXPECT_EQ(copy.epoch, world.epoch);
  EXPECT_EQ(copy.members, world.members);
  ASSERT_EQ(copy.nodes.size(), world.nodes.size());
  for (std::size_t i = 0; i < copy.nodes.size(); ++i) {
    EXPECT_EQ(copy.nodes[i].name, world.nodes[i].name);
    EXPECT_EQ(copy.nodes[i].id, world.nodes[i].id);
    EXPECT_EQ(copy.nodes[i].first, world.nodes[i].first);
    EXPECT_EQ(copy.nodes[i].count, world.nodes[i].count);
  }
}

TEST(ElasticWire, AProgramSurvives) {
  const Program program{{"a b", "\"c\"", ""}, {"X=1\n2", "Y="}, "/some where"};
  const Program copy =
      program_from_json(json::parse(json::serialize(to_json(program))).as_object());
  EXPECT_EQ(copy.arguments, program.arguments);
  EXPECT_EQ(copy.environment, program.environment);
  EXPECT_EQ(copy.directory, program.directory);
}

TEST(ElasticWire, ProcessesSurvive) {
  const std::vector<Proc> procs{{"job@1", 3}, {"job@2", kAllRanks}};
  EXPECT_EQ(procs_from_json(json::parse(json::serialize(to_json(procs)))), procs);
  EXPECT_EQ(to_text(procs[0]), "job@1:3");
  EXPECT_EQ(to_text(procs[1]), "job@2:*");
}

TEST(ElasticWire, WrongJsonIsRefusedByName) {
  const auto world = [](const char* text) -> std::string {
    try {
      world_spec_from_json(json::parse(text).as_object());
    } catch (const ProtocolError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(world(R"({"nspace":"a@1","epoch":1,"members":[1],"nodes":[["n1",0,0,1]]})"), "taken");
  EXPECT_EQ(world(R"({"epoch":1,"members":[1],"nodes":[]})"), "member \"nspace\" is missing");
  EXPECT_THAT(world(R"({"nspace":1,"epoch":1,"members":[1],"nodes":[]})"), HasSubstr("nspace has"));
  EXPECT_THAT(world(R"({"nspace":"a","epoch":-1,"members":[1],"nodes":[]})"), HasSubstr("epoch"));
  EXPECT_THAT(world(R"({"nspace":"a","epoch":5000000000,"members":[],"nodes":[]})"),
              HasSubstr("epoch"));
  EXPECT_THAT(world(R"({"nspace":"a","epoch":1,"members":"x","nodes":[]})"), HasSubstr("members"));
  EXPECT_THAT(world(R"({"nspace":"a","epoch":1,"members":[1],"nodes":[["n1",0,0]]})"),
              HasSubstr("a node is not [name, id, first, count]"));
  EXPECT_THAT(world(R"({"nspace":"a","epoch":1,"members":[1],"nodes":[["n1",0,0,"x"]]})"),
              HasSubstr("a node's number of ranks"));
  EXPECT_THAT(world(R"({"nspace":"a","epoch":1,"members":[1],"nodes":{}})"), HasSubstr("nodes"));

  for (const char* text : {R"([1])", R"([["a"]])", R"([["a",1,2]])", R"([[1,"a"]])", R"({})"}) {
    EXPECT_THROW(procs_from_json(json::parse(text)), ProtocolError) << text;
  }
  for (const char* text : {R"({"arguments":[],"environment":[],"directory":""})",
                           R"({"arguments":["a"],"environment":[],"directory":1})",
                           R"({"arguments":"a","environment":[],"directory":""})", R"({})"}) {
    EXPECT_THROW(program_from_json(json::parse(text).as_object()), ProtocolError) << text;
  }
}

}  // namespace
}  // namespace bellows::elastic
