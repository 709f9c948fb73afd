// SPDX-License-Identifier: Apache-2.0
// The cluster on which tests/bench/bellowsd measures: elastic jobs of one node each, whose second
// node is idle. Job K has n<2K-1> and n<2K>.
#pragma once

#include <string>
#include <vector>

namespace bellows::bench {

constexpr const char* kTablePartition = "main";

inline std::vector<std::string> nodes_of_job(int job) {
  return {"n" + std::to_string(2 * job), "n" + std::to_string(2 * job - 1)};
}

}  // namespace bellows::bench
