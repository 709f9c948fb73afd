// SPDX-License-Identifier: Apache-2.0
#include "scheduler/picture/picture_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <set>

#include "scheduler/command/status_text.h"
#include "scheduler/picture/gnuplot.h"

namespace bellows::scheduler {
namespace {

// Paul Tol's "bright" and "muted" schemes, without the greys: told apart with all kinds of sight.
constexpr std::array kColours = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee",
                                 "#aa3377", "#332288", "#88ccee", "#44aa99", "#117733",
                                 "#999933", "#ddcc77", "#cc6677", "#882255", "#aa4499"};
constexpr int kRowHeight = 26, kMargins = 90;  // pixels
constexpr double kLeastBar = 1.0 / 1000;       // of the width: a short bar is seen, too

constexpr const char* kStyle = R"(<style>
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #fff; --line: #d0d7de; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --line: #3d444d; }
}
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; }
figure { margin: 0; overflow-x: auto; }
svg { max-width: 100%; height: auto; min-width: 40rem; }
svg [fill="black"] { fill: var(--ink); }
svg [stroke="black"] { stroke: var(--ink); }
svg [color="black"], svg [color="gray"] { color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; padding: 0; }
.swatch { display: inline-block; width: .9rem; height: .9rem; border-radius: .15rem;
  margin-right: .4rem; vertical-align: -.1rem; }
.note { border-left: 3px solid #bf8700; padding-left: .7rem; color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; }
@media print { svg { min-width: 0; } }
</style>
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::tm local(double time) {
  const auto when = static_cast<std::time_t>(time);
  std::tm parts{};
  localtime_r(&when, &parts);
  return parts;
}

std::string clock(double time) {
  const std::tm parts = local(time);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%F %T", &parts);
  return text.data();
}

std::string number(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string colour_of(std::size_t index) { return kColours[index % kColours.size()]; }

std::string label(JobId id, const PictureJob& job) {
  return "job " + std::to_string(id) + (job.name.empty() ? "" : " " + job.name) +
         (job.elastic ? "" : " (fixed size)");
}

// Jobs that share a node at a time lie one below the other in its row.
std::vector<int> lanes_of(const std::vector<PictureBar>& bars, std::map<std::string, int>& lanes) {
  std::map<std::string, std::vector<double>> ends;  // of each lane of a node
  std::vector<int> lane_of;
  for (const PictureBar& bar : bars) {
    auto& row = ends[bar.node];
    const auto lane = std::ranges::find_if(row, [&](double end) { return end <= bar.from; });
    lane_of.push_back(static_cast<int>(lane - row.begin()));
    if (lane == row.end()) {
      row.push_back(bar.to);
    } else {
      *lane = bar.to;
    }
    lanes[bar.node] = static_cast<int>(row.size());
  }
  return lane_of;
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
}

std::set<JobId> jobs_with_bars(const Picture& picture) {
  std::set<JobId> jobs;
  for (const PictureBar& bar : picture.bars) jobs.insert(bar.job);
  return jobs;
}

std::string figure(const Picture& picture) {
  std::string svg = run_gnuplot(picture_script(picture));
  svg.erase(0, std::min(svg.find("<svg"), svg.size()));
  replace_all(svg, "<title>bars</title>", "");
  std::size_t plot = 1;
  for (const JobId job : jobs_with_bars(picture)) {
    const std::string name = "bars_plot_" + std::to_string(plot++);
    replace_all(svg, "<title>" + name + "</title>",
                "<title>" + escaped(label(job, picture.jobs.at(job))) + "</title>");
  }
  return "<figure role=\"img\" aria-label=\"Bars: which job had which node when\">\n" + svg +
         "</figure>\n";
}

std::string legend(const Picture& picture) {
  std::string html = "<ul class=\"legend\">\n";
  std::size_t index = 0;
  for (const JobId job : jobs_with_bars(picture)) {
    html += "<li><span class=\"swatch\" style=\"background:" + colour_of(index++) + "\"></span>" +
            escaped(label(job, picture.jobs.at(job))) + "</li>\n";
  }
  return html + "</ul>\n";
}

std::string table(const Picture& picture) {
  std::string html =
      "<div class=\"scroll\"><table id=\"bars\">\n<thead><tr><th>Node</th><th class=\"number\">Job"
      "</th><th>Name</th><th class=\"number\">User</th><th>From</th><th>To</th>"
      "<th class=\"number\">Seconds</th><th>Decided by bellowsd</th></tr></thead>\n<tbody>\n";
  for (const PictureBar& bar : picture.bars) {
    const PictureJob& job = picture.jobs.at(bar.job);
    html += "<tr><td>" + escaped(bar.node) + "</td><td class=\"number\">" +
            std::to_string(bar.job) + "</td><td>" + escaped(job.name) +
            "</td><td class=\"number\">" + std::to_string(job.user) + "</td><td>" +
            clock(bar.from) + "</td><td>" + clock(bar.to) + (bar.open ? " or later" : "") +
            "</td><td class=\"number\">" + number(bar.to - bar.from, 1) + "</td><td>" +
            escaped(bar.why) + "</td></tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string picture_script(const Picture& picture) {
  std::map<std::string, int> rows, lanes;
  for (const std::string& node : picture.nodes) rows[node] = static_cast<int>(rows.size()) + 1;
  const std::vector<int> lane_of = lanes_of(picture.bars, lanes);
  const double span = std::max(picture.end - picture.begin, 1.0);
  const auto zone = static_cast<double>(local(picture.begin).tm_gmtoff);
  const auto row_count = static_cast<int>(std::max<std::size_t>(picture.nodes.size(), 1));
  std::string script =
      "set terminal svg size 1100," + std::to_string(kMargins + kRowHeight * row_count) +
      " font 'sans-serif,13' noenhanced name 'bars'\nset encoding utf8\nset key off\n"
      "set style fill solid 1.0 noborder\nset grid xtics\nset xtics nomirror\nset ytics nomirror\n"
      "set xlabel 'local time'\nset xtics time format '" +
      std::string(span < 600       ? "%H:%M:%S"
                  : span < 129'600 ? "%H:%M"
                                   : "%m-%d %H:%M") +
      "'\nset xrange [" + number(picture.begin + zone, 3) + ":" +
      number(picture.begin + zone + span, 3) + "]\nset yrange [" + number(row_count + 0.5, 1) +
      ":0.5]\nset ytics (";
  for (std::size_t i = 0; i < picture.nodes.size(); ++i) {
    script += (i > 0 ? ", " : "") + gnuplot_string(printable(picture.nodes[i])) + " " +
              std::to_string(i + 1);
  }
  script += ")\n";
  std::map<JobId, std::string> data;
  for (std::size_t i = 0; i < picture.bars.size(); ++i) {
    const PictureBar& bar = picture.bars[i];
    const double height = 0.84 / lanes[bar.node];
    const double top = rows[bar.node] - 0.42 + height * lane_of[i];
    const double least = span * kLeastBar;
    const double from = std::min(bar.from, picture.begin + span - least);
    const double to = std::max(bar.to, from + least);
    data[bar.job] += number(from + zone, 3) + " " + number(to + zone, 3) + " " + number(top, 4) +
                     " " + number(top + height, 4) + "\n";
  }
  std::string plots;
  std::size_t index = 0;
  for (const auto& [job, boxes] : data) {
    const std::string name = "$J" + std::to_string(job);
    script += name;
    script += " << EOD\n";
    script += boxes;
    script += "EOD\n";
    plots += std::string(plots.empty() ? "" : ", ") + name +
             " using 1:3:1:2:3:4 with boxxyerror lc rgb '" + colour_of(index++) +
             "' title 'job'";  // without a title its group is named after the data
  }
  return script + "plot " + (plots.empty() ? "NaN" : plots) + "\n";
}

std::string picture_page(const Picture& picture, const std::vector<std::string>& notes) {
  const std::string title = "Who had which nodes";
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      title + "</title>\n" + kStyle + "</head>\n<body>\n<h1>" + title + "</h1>\n<p>" +
      clock(picture.begin) + " to " + clock(picture.end) + ": " +
      std::to_string(picture.nodes.size()) + " nodes, " +
      std::to_string(jobs_with_bars(picture).size()) + " jobs.</p>\n";
  for (const std::string& note : notes) html += "<p class=\"note\">" + escaped(note) + "</p>\n";
  html += figure(picture) + legend(picture) + "<h2>The same as a table</h2>\n" + table(picture);
  return html + "</body>\n</html>\n";
}

}  // namespace bellows::scheduler
