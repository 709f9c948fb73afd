// SPDX-License-Identifier: Apache-2.0
// What a report shows, before it has a form: figures with their numbers, and tables.
#pragma once

#include <string>
#include <vector>

namespace bellows::report {

struct Point {
  double x = 0, y = 0;
  double low = 0, high = 0;  // quartiles, with Series::spread
};

struct Series {
  enum class Style { points, dots, lines, steps, ideal };  // points: with a line, unless `spread`
  std::string name;
  Style style = Style::lines;
  bool spread = false;
  std::vector<Point> points = {};
};

struct Figure {
  std::string id;  // letters, digits, -
  std::string title;
  std::string caption = {};  // what is to be seen, and how it was worked out
  std::string x_label = {}, y_label = {};
  std::vector<Series> series = {};
  /// Not empty: stacked bars, series i has the i-th piece of each bar; x is its number from 0.
  std::vector<std::string> bars = {};
  bool from_zero = true, x_from_zero = false;  // the axes begin there
  bool whole_x = false, whole_y = false;       // an axis that counts something
};

struct Table {
  std::string id;
  std::string title;
  std::string caption = {};
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};
  bool appendix = false;  // long: behind the figures
};

/// All of a report.
struct Contents {
  std::string title;
  std::vector<std::string> notes = {};
  std::vector<Table> tables = {};
  std::vector<Figure> figures = {};
};

}  // namespace bellows::report
