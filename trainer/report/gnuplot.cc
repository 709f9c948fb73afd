// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/gnuplot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "protocol/fd.h"

namespace bellows::report {
namespace fs = std::filesystem;

namespace {

constexpr int kLimitMilliseconds = 120'000;
constexpr std::size_t kColours = 10;
// Colours that stand for others: what gnuplot writes is found again and replaced.
constexpr int kInk = 1, kGrid = 2, kFirstColour = 16;
// An axis with more whole numbers than that is marked as gnuplot likes.
constexpr double kMostMarks = 16;

std::string colour(int value) {
  return fmt::format("rgb '#{:02x}{:02x}{:02x}'", value, value, value);
}

/// In single quotes gnuplot substitutes nothing.
std::string quoted(const std::string& text) {
  std::string safe = "'";
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    safe += control ? '?' : c;
    if (c == '\'') safe += c;
  }
  return safe + "'";
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
    out << (i > 0 ? ", " : "") << quoted(figure.bars[i]) << " " << i;
  out << ")\n";
}

void write_figure(const Figure& figure, const std::string& file, std::ostream& out) {
  // (gnuplot wants names without - in a name.)
  out << "reset\nset terminal svg name " << quoted(name_of(figure))
      << " size 760,340 dynamic noenhanced font 'sans-serif,13' linewidth 1.4\n"
      << "set output " << quoted(file) << "\n"
      << "set border 3 lc " << colour(kInk) << "\nset tics nomirror textcolor " << colour(kInk)
      << "\nset grid ytics lc " << colour(kGrid)
      << " dt 1\nset key outside top center horizontal textcolor " << colour(kInk)
      << "\nset xlabel " << quoted(figure.x_label) << " textcolor " << colour(kInk)
      << "\nset ylabel " << quoted(figure.y_label) << " textcolor " << colour(kInk)
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
        << " title " << quoted(series.name);
  }
  out << "\nunset output\n";
}

class Folder {
 public:
  Folder() {
    std::string path = (fs::temp_directory_path() / "bellows-report-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr)
      throw PlotError(path + ": " + std::strerror(errno) +
                      "; set TMPDIR to a folder for temporary "
                      "files");
    path_ = path;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::string contents_of(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

/// Its exit status as of waitpid(); -1: not started, with errno; -2: not ended in time.
int run_gnuplot(const std::string& script, const std::string& errors) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (const int to : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, to, errors.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                     0600);
  std::string program = "gnuplot", defaults = "-d", argument = script;
  char* arguments[] = {program.data(), defaults.data(), argument.data(), nullptr};
  pid_t child = 0;
  errno = posix_spawnp(&child, arguments[0], &files, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  if (errno != 0) return -1;
  const protocol::Fd watch(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  pollfd ended{watch.get(), POLLIN, 0};
  const bool in_time = poll(&ended, 1, kLimitMilliseconds) > 0;
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return in_time ? status : -2;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

void set_colour(std::string& svg, int value, const std::string& property) {
  for (const char* form : {"rgb({0:3}, {0:3}, {0:3})", "rgb({0},{0},{0})"})
    replace_all(svg, fmt::format(fmt::runtime(form), value), "var(--" + property + ")");
}

/// The element alone, with names that no other figure of the page has.
std::string embedded(std::string svg, const Figure& figure) {
  const std::size_t begin = svg.find("<svg"), end = svg.rfind("</svg>");
  if (begin == std::string::npos || end == std::string::npos) return "";
  svg = svg.substr(begin, end + 6 - begin);
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
  const Folder folder;
  const std::string script = folder.file("script"), errors = folder.file("errors");
  const auto file_of = [&](const Figure& figure) { return folder.file(figure.id + ".svg"); };
  {
    std::ofstream out(script);
    for (const Figure& figure : figures) write_figure(figure, file_of(figure), out);
    if (!out.flush()) throw PlotError(script + ": cannot be written: is the disk full?");
  }
  const int status = run_gnuplot(script, errors);
  if (status == -1)
    throw PlotError(std::string("gnuplot draws the plots, and cannot be started (") +
                    std::strerror(errno) +
                    "): install gnuplot (Debian: gnuplot-nox), or use "
                    "--json or --csv");
  if (status == -2) throw PlotError("gnuplot did not end within two minutes");
  std::vector<std::string> drawn;
  for (const Figure& figure : figures) {
    drawn.push_back(embedded(contents_of(file_of(figure)), figure));
    if (drawn.back().empty() || status != 0)
      throw PlotError("gnuplot could not draw \"" + figure.title + "\": " + contents_of(errors));
  }
  return drawn;
}

}  // namespace bellows::report
