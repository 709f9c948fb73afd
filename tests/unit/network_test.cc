// SPDX-License-Identifier: Apache-2.0
// Which links are named as slow.
#include "trainer/bench/network.h"

#include <gtest/gtest.h>

namespace bellows::bench {
namespace {

std::vector<bool> slow(std::vector<std::pair<double, double>> measured) {
  std::vector<LinkResult> links;
  for (const auto& [latency, bandwidth] : measured) links.push_back({"a", "b", latency, bandwidth});
  find_slow(links);
  std::vector<bool> marks;
  for (const LinkResult& link : links) marks.push_back(link.slow);
  return marks;
}

TEST(Links, OneThatHasLittleBandwidthIsSlow) {
  EXPECT_EQ(slow({{1, 10}, {1, 4}, {1, 10}, {1, 11}}), (std::vector{false, true, false, false}));
}

TEST(Links, OneThatTakesLongIsSlow) {
  EXPECT_EQ(slow({{1, 10}, {1.1, 9}, {3, 10}}), (std::vector{false, false, true}));
}

TEST(Links, ThatAreAlikeAreNot) {
  EXPECT_EQ(slow({{1, 10}, {1.9, 6}, {1, 10}}), (std::vector{false, false, false}));
  EXPECT_EQ(slow({}), std::vector<bool>());
  EXPECT_EQ(slow({{1, 1}}), std::vector{false});
}

}  // namespace
}  // namespace bellows::bench
