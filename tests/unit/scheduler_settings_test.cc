// SPDX-License-Identifier: Apache-2.0
// What users and Slurm write: sizes, lists of nodes, the job's variables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/elastic_settings.h"
#include "scheduler/node_list.h"
#include "scheduler/size_request.h"

namespace bellows::scheduler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NodeList, IsAsSlurmWritesIt) {
  EXPECT_THAT(parse_node_list("n1"), ElementsAre("n1"));
  EXPECT_THAT(parse_node_list("n[1-3,7],gpu1"), ElementsAre("n1", "n2", "n3", "n7", "gpu1"));
  EXPECT_THAT(parse_node_list("n[008-011]-ib"),
              ElementsAre("n008-ib", "n009-ib", "n010-ib", "n011-ib"));
  EXPECT_THAT(parse_node_list("a,a"), ElementsAre("a"));
}

TEST(NodeList, RefusesWhatIsNone) {
  for (const char* wrong : {"", ",", "a,", "n[", "n]", "n[1", "n[[1]]", "n[3-1]", "n[x]", "n[1-]",
                            "n[]", "a b", "a;b", "$(x)", "n[1-999999999]", "n[1]x[2]"}) {
    EXPECT_THROW(parse_node_list(wrong), BadNodeList) << wrong;
  }
}

TEST(SizeRequests, AreNumbersOrNames) {
  using What = SizeRequest::What;
  EXPECT_EQ(parse_size_request("4").number, 4);
  EXPECT_EQ(parse_size_request("+2").what, What::grow);
  EXPECT_EQ(parse_size_request("-2").what, What::shrink);
  EXPECT_EQ(parse_size_request("n1,n[3-4]").names.size(), 3U);
  EXPECT_EQ(parse_size_request("-n1").what, What::shrink);
  for (const char* wrong :
       {"", "+", "-", "0", "+0", "100001", "99999999999999", "1.5", "+-1", "n1,"}) {
    EXPECT_THROW(parse_size_request(wrong), std::invalid_argument) << wrong;
  }
}

TEST(ElasticVariables, GiveBounds) {
  protocol::ElasticSettings settings;
  protocol::parse_elastic("2-16:2", settings);
  EXPECT_EQ(settings.least, 2);
  EXPECT_EQ(settings.most, 16);
  EXPECT_EQ(settings.step, 2);
  protocol::parse_elastic("4", settings);
  EXPECT_EQ(settings.least, 4);
  EXPECT_EQ(settings.most, 4);
  for (const char* wrong : {"", "0-4", "4-2", "1-", "-4", "1-4:0", "1-4:", "a-b", "1-4-8"}) {
    EXPECT_THROW(protocol::parse_elastic(wrong, settings), protocol::BadSetting) << wrong;
  }
}

TEST(ElasticVariables, GivePlacesForCompanions) {
  const auto places = protocol::parse_companions("partition=spot,features=slow,max=2;qos=low");
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].partition, "spot");
  EXPECT_EQ(places[0].features, "slow");
  EXPECT_EQ(places[0].most, 2);
  EXPECT_EQ(places[1].qos, "low");
  EXPECT_EQ(protocol::parse_companions("partition=gpu,gres=gpu:a100:2").at(0).gres, "gpu:a100:2");
  for (const char* wrong : {"spot", "partition=", "max=0", "max=x", "colour=red"}) {
    EXPECT_THROW(protocol::parse_companions(wrong), protocol::BadSetting) << wrong;
  }
}

TEST(ElasticVariables, NameModes) {
  EXPECT_EQ(protocol::parse_elastic_mode("turbo"), protocol::ElasticMode::turbo);
  EXPECT_THROW(protocol::parse_elastic_mode("fast"), protocol::BadSetting);
}

}  // namespace
}  // namespace bellows::scheduler
