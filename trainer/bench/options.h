// SPDX-License-Identifier: Apache-2.0
// The command line of bellows-bench.
#pragma once

#include <string>
#include <vector>

#include "trainer/errors.h"

namespace bellows::bench {

using trainer::UsageError;

struct Options {
  std::vector<int> ranks;  // sizes to measure, in this order
  int steps = 50;          // of each size
  int warm_up = 5;         // steps before those
  int repeat = 1;
  bool weak = false;
  double limit = 600;  // seconds for one size
  std::string folder = "bench";
  std::vector<std::string> launch;   // further options of bellows-run
  std::vector<std::string> command;  // the program and its arguments
  bool help = false, version = false;

  bool is_trainer() const;
};

/// Throws UsageError.
Options parse_options(const std::vector<std::string>& arguments);
std::string help_text();

/// The sizes where none are given: 1, 2, 4, … and the most.
std::vector<int> sizes_up_to(int most);

/// The value of --NAME in a command, or "".
std::string option_of(const std::vector<std::string>& command, const std::string& name);

}  // namespace bellows::bench
