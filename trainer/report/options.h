// SPDX-License-Identifier: Apache-2.0
// The command line of bellows-report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/errors.h"
#include "trainer/report/scaling_figures.h"

namespace bellows::report {

using trainer::UsageError;

struct Options {
  std::vector<std::string> runs;
  std::string html = "report.html";  // "" for none
  bool json = false, csv = false;    // instead of the summary, to standard output
  std::string title = "Bellows report";
  int warm_up = 5;  // steps after each change that say nothing of a size's speed
  std::optional<Price> price;
  bool any_program = false;
  bool together = false;  // the runs are one experiment
  bool help = false, version = false;
};

/// Throws UsageError.
Options parse_options(const std::vector<std::string>& arguments);
std::string help_text();

}  // namespace bellows::report
