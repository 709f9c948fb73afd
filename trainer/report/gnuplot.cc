// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/gnuplot.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "scheduler/picture/gnuplot.h"

namespace bellows::report {

namespace {

using scheduler::gnuplot_string;

constexpr std::chrono::minutes kLimit{2};
constexpr std::size_t kColours = 10;
// Colours that stand for others: what gnuplot writes is found again and replaced.
constexpr int kInk = 1, kGrid = 2, kFirstColour = 16;
// An axis with more whole numbers than that is marked as gnuplot likes.
constexpr double kMostMarks = 16;

std::string colour(int value) {
  return fmt::format("rgb '#{:02x}{:02x}{:02x}'", value, value, value);
}

std::string name_of(const Figure& figure) {
  std::string name = figure.id;
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string ticks(const char* axis, const Figure& figure, bool x) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Series& series : figure.series)
    for (const Point& point : series.points) {
      low = std::min(low, x ? point.x : point.y);
      high = std::max(high, x ? point.x : point.y);
    }
  return high - low <= kMostMarks ? fmt::format("set {}tics 1\n", axis) : "";
}

std::string style_of(const Series& series) {
  switch (series.style) {
    case Series::Style::points:
      return series.spread ? "using 1:2:3:4 with yerrorbars pt 7 ps 0.6"
                           : "with linespoints pt 7 ps 0.6";
    case Series::Style::dots:
      return "with points pt 7 ps 0.8";
    case Series::Style::lines:
      return "with lines";
    case Series::Style::steps:
      return "with steps";
    case Series::Style::ideal:
      return "with lines dt 2";
  }
  return "";
}

void write_data(const Figure& figure, std::ostream& out) {
  int number = 0;
  for (const Series& series : figure.series) {
    out << "$d" << number++ << " << END\n";
    for (const Point& p : series.points)
      out << fmt::format("{} {} {} {}\n", p.x, p.y, p.low, p.high);
    out << "END\n";
  }
}

void write_bars(const Figure& figure, std::ostream& out) {
  out << "set style data histograms\nset style histogram rowstacked\nset boxwidth 0.7\n"
         "set style fill solid 0.85\nset xtics (";
  for (std::size_t i = 0; i < figure.bars.size(); ++i)
    out << (i > 0 ? ", " : "") << gnuplot_string(figure.bars[i]) << " " << i;
  out << ")\n";
}

void write_figure(const Figure& figure, std::ostream& out) {
  // (gnuplot wants names without - in a name.)
  out << "reset\nset terminal svg name " << gnuplot_string(name_of(figure))
      << " size 760,340 dynamic noenhanced font 'sans-serif,13' linewidth 1.4\n"
      << "set output\n"
      << "set border 3 lc " << colour(kInk) << "\nset tics nomirror textcolor " << colour(kInk)
      << "\nset grid ytics lc " << colour(kGrid)
      << " dt 1\nset key outside top center horizontal textcolor " << colour(kInk)
      << "\nset xlabel " << gnuplot_string(figure.x_label) << " textcolor " << colour(kInk)
      << "\nset ylabel " << gnuplot_string(figure.y_label) << " textcolor " << colour(kInk)
      << "\nset offsets graph 0.02, graph 0.02, graph 0.05, 0\n";
  if (figure.from_zero) out << "set yrange [0:*]\n";
  if (figure.x_from_zero) out << "set xrange [0:*]\n";
  if (!figure.whole_x && figure.bars.empty())
    out << "set autoscale xfix\nset offsets 0, 0, graph 0.05, 0\n";
  if (figure.whole_x) out << ticks("x", figure, true);
  if (figure.whole_y) out << ticks("y", figure, false);
  write_data(figure, out);
  if (!figure.bars.empty()) write_bars(figure, out);
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    const Series& series = figure.series[i];
    const int shade =
        series.style == Series::Style::ideal ? kInk : kFirstColour + static_cast<int>(i % kColours);
    out << (i == 0 ? "plot " : ", ") << "$d" << i << " "
        << (figure.bars.empty() ? style_of(series) : "using 2") << " lc " << colour(shade)
        << " title " << gnuplot_string(series.name);
  }
  out << "\nset output\n";
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

void set_colour(std::string& svg, int value, const std::string& property) {
  for (const char* form : {"rgb({0:3}, {0:3}, {0:3})", "rgb({0},{0},{0})"})
    replace_all(svg, fmt::format(fmt::runtime(form), value), "var(--" + property + ")");
}

/// Takes the first element off `plots`, with names that no other figure of the page has.
std::string take_element(std::string& plots, const Figure& figure) {
  const std::size_t begin = plots.find("<svg"), end = plots.find("</svg>");
  if (begin == std::string::npos || end == std::string::npos)
    throw PlotError("gnuplot has not drawn \"" + figure.title + "\"");
  std::string svg = plots.substr(begin, end + 6 - begin);
  plots.erase(0, end + 6);
  for (const char* name : {"gpDot", "gpPt", "textbox", "greybox", "gnuplot_canvas"}) {
    replace_all(svg, std::string("'") + name, "'" + name_of(figure) + "_" + name);
    replace_all(svg, std::string("\"") + name, "\"" + name_of(figure) + "_" + name);
    replace_all(svg, std::string("#") + name, "#" + name_of(figure) + "_" + name);
  }
  set_colour(svg, kInk, "ink");
  set_colour(svg, kGrid, "grid");
  for (std::size_t i = 0; i < kColours; ++i)
    set_colour(svg, kFirstColour + static_cast<int>(i), fmt::format("s{}", i));
  replace_all(svg, "color='white'", "color='var(--paper)'");
  return svg;
}

}  // namespace

std::vector<std::string> draw(const std::vector<Figure>& figures) {
  std::ostringstream script;
  for (const Figure& figure : figures) write_figure(figure, script);
  std::string plots;
  try {
    plots = scheduler::run_gnuplot(script.str(), kLimit);
  } catch (const std::runtime_error& failed) {
    throw PlotError(std::string(failed.what()) + "; --json and --csv need no plots");
  }
  std::vector<std::string> drawn;
  for (const Figure& figure : figures) drawn.push_back(take_element(plots, figure));
  return drawn;
}

}  // namespace bellows::report
