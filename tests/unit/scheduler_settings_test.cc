// SPDX-License-Identifier: Apache-2.0
// What users and Slurm write: sizes, lists of nodes, the job's variables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "protocol/elastic_settings.h"
#include "scheduler/cluster/node_list.h"
#include "scheduler/command/size_request.h"

namespace bellows::scheduler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

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

class ElasticVariables : public testing::Test {
 protected:
  ElasticVariables() { TearDown(); }
  void TearDown() override {
    for (const char* name : {"", "_MODE", "_POLICY_ARGS", "_GRACE", "_HET"}) {
      unsetenv((std::string("BELLOWS_ELASTIC") + name).c_str());
    }
  }
  static void set(const std::string& name, const std::string& value) {
    setenv(("BELLOWS_ELASTIC" + name).c_str(), value.c_str(), 1);
  }
};

TEST_F(ElasticVariables, AreSettings) {
  EXPECT_FALSE(protocol::elastic_settings());
  set("", "2-16:2");
  set("_MODE", "turbo");
  set("_POLICY_ARGS", "gain=0.2");
  set("_GRACE", "30");
  set("_HET", "partition=spot,features=slow,max=2;partition=gpu,gres=gpu:a100:2,account=x");
  const auto settings = protocol::elastic_settings();
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->nodes.text(), "2-16:2");
  EXPECT_EQ(settings->mode, protocol::ElasticMode::turbo);
  EXPECT_EQ(settings->policy_arguments, "gain=0.2");
  EXPECT_EQ(settings->grace, std::chrono::seconds(30));
  ASSERT_EQ(settings->companions.size(), 2U);
  EXPECT_EQ(settings->companions[0].partition, "spot");
  EXPECT_EQ(settings->companions[0].features, "slow");
  EXPECT_EQ(settings->companions[0].most, 2);
  EXPECT_EQ(settings->companions[1].gres, "gpu:a100:2");
  EXPECT_EQ(settings->companions[1].account, "x");
}

TEST_F(ElasticVariables, AreNamedWhenTheyAreWrong) {
  set("", "1-4");
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"_MODE", "fast"},     {"_POLICY_ARGS", "gain"},    {"_GRACE", "-1"},
      {"_HET", "max=x"},     {"_HET", "colour=red"},      {"", "4-2"},
      {"_HET", "partition"}, {"", std::string(5000, '1')}};
  for (const auto& [name, value] : wrong) {
    const char* before = std::getenv(("BELLOWS_ELASTIC" + name).c_str());
    const std::string kept = before == nullptr ? "" : before;
    set(name, value);
    try {
      protocol::elastic_settings();
      ADD_FAILURE() << name << " " << value;
    } catch (const protocol::BadSetting& error) {
      EXPECT_THAT(error.what(), StartsWith("BELLOWS_ELASTIC" + name + "='"));
      EXPECT_THAT(error.what(), HasSubstr("; must be "));
    }
    set(name, kept);
  }
}

}  // namespace
}  // namespace bellows::scheduler
