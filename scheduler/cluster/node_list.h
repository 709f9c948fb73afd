// SPDX-License-Identifier: Apache-2.0
// Slurm's way to write lists of nodes: "n[1-3,7],gpu1".
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace bellows::scheduler {

/// No such list; `what()` has the text and what is wrong with it.
class BadNodeList : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The names, in the order written, each once; at most 100,000. One pair of brackets per name.
std::vector<std::string> parse_node_list(const std::string& text);

bool has(const std::vector<std::string>& names, const std::string& name);

/// With commas in between; no brackets.
std::string join(const std::vector<std::string>& names, const char* between = ",");

}  // namespace bellows::scheduler
