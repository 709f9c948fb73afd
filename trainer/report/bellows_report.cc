// SPDX-License-Identifier: Apache-2.0
// bellows-report: how runs went and how they scaled. See bellows-report(1).
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "config.h"
#include "trainer/report/data.h"
#include "trainer/report/gnuplot.h"
#include "trainer/report/html.h"
#include "trainer/report/run_reader.h"
#include "trainer/tool.h"

namespace bellows::report {

namespace {

void write_file(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush())
    throw std::runtime_error("--html=" + file + ": " +
                             (errno != 0 ? std::strerror(errno) : "cannot be written"));
}

int make(const Options& options) {
  std::vector<Run> runs;
  for (const std::string& path : options.runs) runs.push_back(read_run(path));
  const auto scalings = scalings_of(runs, options);
  const Contents contents = make_contents(options, runs, scalings);
  for (const std::string& note : contents.notes) fmt::print(stderr, "bellows-report: {}\n", note);
  if (!options.html.empty()) write_file(options.html, html_page(contents));
  if (options.json)
    fmt::print("{}", json_text(contents, runs, scalings));
  else if (options.csv)
    fmt::print("{}", csv_text(contents));
  else
    fmt::print("{}\nThe report: {}\n", summary_text(contents), options.html);
  if (std::fflush(stdout) != 0) throw std::runtime_error(std::strerror(errno));
  return trainer::kSuccess;
}

int run(const std::vector<std::string>& arguments) {
  const Options options = parse_options(arguments);
  if (!options.help && !options.version) return make(options);
  fmt::print("{}", options.help ? help_text() : "bellows-report " BELLOWS_VERSION "\n");
  return trainer::kSuccess;
}

}  // namespace

}  // namespace bellows::report

int main(int argc, char** argv) {
  return bellows::trainer::run_tool("bellows-report",
                                    [&] { return bellows::report::run({argv + 1, argv + argc}); });
}
