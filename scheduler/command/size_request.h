// SPDX-License-Identifier: Apache-2.0
// How a user says which nodes a job is to have: N, +N, -N, or lists of names.
#pragma once

#include <string>
#include <vector>

namespace bellows::scheduler {

struct SizeRequest {
  enum class What { to, grow, shrink };
  What what = What::to;
  int number = 0;                  // of nodes; unless names are given
  std::vector<std::string> names;  // exactly these, these more, these fewer
};

/// "4", "+2", "-1", "n1,n[3-4]", "+n5", "-n5". Throws std::invalid_argument that says what is
/// right.
SizeRequest parse_size_request(const std::string& text);

}  // namespace bellows::scheduler
