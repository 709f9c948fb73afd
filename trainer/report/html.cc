// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/report/gnuplot.h"
#include "trainer/report/numbers.h"

namespace bellows::report {

namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --soft: #59636e; --grid: #d8dee4;
  --s0: #0969da; --s1: #bc4c00; --s2: #1a7f37; --s3: #8250df; --s4: #cf222e; --s5: #0e7490; --s6: #9a6700;
  --s7: #bf3989; --s8: #57606a; --s9: #116329; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --soft: #9198a1;
  --grid: #30363d; --s0: #58a6ff; --s1: #f0883e; --s2: #3fb950; --s3: #bc8cff; --s4: #ff7b72;
  --s5: #56d4dd; --s6: #d29922; --s7: #f778ba; --s8: #8b949e; --s9: #7ee787; } }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --grid: #ccc; }
  figure, table { break-inside: avoid; } details.numbers { display: none; } body { max-width: none; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 1000px; padding: 1rem 1.25rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin: 1.8rem 0 .4rem; }
p { margin: .3rem 0; } .caption { color: var(--soft); font-size: .9rem; }
.notes { border-left: 4px solid var(--s6); padding: .1rem .9rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
figure { margin: 0; } svg { width: 100%; height: auto; max-width: 900px; display: block; }
svg text { font-family: system-ui, sans-serif; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; border-bottom: 1px solid var(--grid);
  vertical-align: top; } td { overflow-wrap: anywhere; } th { white-space: nowrap; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; }
)";

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string row(const char* cell, const std::vector<std::string>& cells) {
  std::string html = "<tr>";
  for (const std::string& text : cells) html += fmt::format("<{0}>{1}</{0}>", cell, escaped(text));
  return html + "</tr>\n";
}

std::string table_html(const Table& table) {
  std::string html =
      fmt::format("<div class=\"scroll\"><table id=\"table-{}\">\n<thead>{}</thead><tbody>\n",
                  table.id, row("th", table.columns));
  for (const auto& cells : table.rows) html += row("td", cells);
  return html + "</tbody></table></div>\n";
}

bool share_their_x(const Figure& figure) {
  const auto same_x = [](const Point& a, const Point& b) { return a.x == b.x; };
  return std::ranges::all_of(figure.series, [&](const Series& series) {
    return !series.spread && std::ranges::equal(series.points, figure.series[0].points, same_x);
  });
}

/// A row for each x where the series share them, else one for each point.
Table numbers_of(const Figure& figure) {
  Table table{.id = figure.id, .title = ""};
  if (share_their_x(figure)) {
    table.columns = {figure.x_label};
    for (const Series& series : figure.series) table.columns.push_back(series.name);
    for (std::size_t i = 0; i < figure.series[0].points.size(); ++i) {
      table.rows.push_back(
          {figure.bars.empty() ? format_number(figure.series[0].points[i].x) : figure.bars[i]});
      for (const Series& series : figure.series)
        table.rows.back().push_back(format_number(series.points[i].y));
    }
    return table;
  }
  table.columns = {"series", figure.x_label, figure.y_label, "quartiles"};
  for (const Series& series : figure.series)
    for (const Point& p : series.points)
      table.rows.push_back(
          {series.name, format_number(p.x), format_number(p.y),
           series.spread ? format_number(p.low) + " to " + format_number(p.high) : ""});
  return table;
}

std::string figure_html(const Figure& figure, const std::string& svg) {
  return fmt::format(
      "<h2>{0}</h2>\n<figure id=\"{1}\" role=\"group\" aria-label=\"{0}\">\n{2}\n"
      "<figcaption class=\"caption\">{3}</figcaption>\n</figure>\n"
      "<details class=\"numbers\"><summary>Numbers</summary>\n{4}</details>\n",
      escaped(figure.title), figure.id, svg, escaped(figure.caption),
      table_html(numbers_of(figure)));
}

}  // namespace

std::string html_page(const Contents& contents) {
  const std::vector<std::string> drawn = draw(contents.figures);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      escaped(contents.title), kStyle);
  if (!contents.notes.empty()) {
    html += "<div class=\"notes\">\n";
    for (const std::string& note : contents.notes)
      html += fmt::format("<p>{}</p>\n", escaped(note));
    html += "</div>\n";
  }
  // What is short comes first, the plots, and what is long last.
  const auto add_table = [&](const Table& table) {
    if (table.rows.empty()) return;
    html += fmt::format("<h2>{}</h2>\n", escaped(table.title));
    if (!table.caption.empty())
      html += fmt::format("<p class=\"caption\">{}</p>\n", escaped(table.caption));
    html += table_html(table);
  };
  for (const Table& table : contents.tables)
    if (!table.appendix) add_table(table);
  for (std::size_t i = 0; i < drawn.size(); ++i) html += figure_html(contents.figures[i], drawn[i]);
  for (const Table& table : contents.tables)
    if (table.appendix) add_table(table);
  return html + "</body>\n</html>\n";
}

}  // namespace bellows::report
