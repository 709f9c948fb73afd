// SPDX-License-Identifier: Apache-2.0
// Draws figures with gnuplot.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/report/figure.h"

namespace bellows::report {

/// There is no gnuplot, or it failed. `what()` says what to do.
class PlotError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Each figure as an SVG element to be put into a page, whose style gives the colours: the custom
/// properties --ink, --grid, --paper and --s0 to --s9. The group of series i has the id
/// FIGURE_plot_I with I = i+1 (and - in the figure's id as _). Throws PlotError.
std::vector<std::string> draw(const std::vector<Figure>& figures);

}  // namespace bellows::report
