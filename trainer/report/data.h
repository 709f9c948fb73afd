// SPDX-License-Identifier: Apache-2.0
// A report for programs and for the terminal.
#pragma once

#include <string>
#include <vector>

#include "trainer/report/contents.h"

namespace bellows::report {

/// One object, on a line: docs/reports.md lists its members.
std::string json_text(const Contents& contents, const std::vector<Run>& runs,
                      const std::vector<NamedScaling>& scalings);
/// A line for each point of each plot.
std::string csv_text(const Contents& contents);
/// The notes and the tables that are short.
std::string summary_text(const Contents& contents);

}  // namespace bellows::report
