// SPDX-License-Identifier: Apache-2.0
// The picture of a cluster as one page for a browser, which needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "scheduler/picture/picture_log.h"

namespace bellows::scheduler {

/// HTML without scripts: bars (SVG by gnuplot; x is time, y the nodes), a legend, a table of the
/// same numbers, and the notes. Throws what run_gnuplot throws.
std::string picture_page(const Picture& picture, const std::vector<std::string>& notes);

/// The bars as gnuplot is told to draw them: one plot for each job, in the order of their numbers,
/// with one box for each bar.
std::string picture_script(const Picture& picture);

}  // namespace bellows::scheduler
