// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>

#include "trainer/tool.h"

namespace bellows::report {
namespace po = boost::program_options;

namespace {

Price parse_price(const std::string& text) {
  Price price;
  const char* const end = text.data() + text.size();
  const auto [after, failed] = std::from_chars(text.data(), end, price.per_rank_hour);
  price.currency = std::string(after, end);
  const bool word = !price.currency.empty() && std::ranges::all_of(price.currency, [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
  });
  if (failed != std::errc() || !word || !std::isfinite(price.per_rank_hour) ||
      price.per_rank_hour < 0)
    throw UsageError("--price=" + text +
                     ": must be what a rank costs per hour and the currency, like 0.35EUR");
  return price;
}

struct OptionTable {
  po::options_description shown{"Options"};
  std::string price, html;

  explicit OptionTable(Options& o) {
    shown.add_options()("html", po::value(&html)->value_name("FILE"),
                        "where the page goes [report.html; with --json or --csv: none]")(
        "json", po::bool_switch(&o.json), "print all numbers as one JSON object")(
        "csv", po::bool_switch(&o.csv), "print the numbers of all plots as CSV")(
        "title", po::value(&o.title)->value_name("TEXT"), "of the page")(
        "warm-up", po::value(&o.warm_up)->value_name("N")->default_value(o.warm_up),
        "steps after each change of the world that are left out when sizes are compared")(
        "price", po::value(&price)->value_name("N"),
        "of a rank and hour, with its currency: 0.35EUR")(
        "any-program", po::bool_switch(&o.any_program),
        "compare runs although their programs, models or data differ")(
        "together", po::bool_switch(&o.together),
        "the runs are repetitions, or sizes, of one experiment: compare all their steps by size")(
        "help,h", po::bool_switch(&o.help), "show this")("version", po::bool_switch(&o.version),
                                                         "show the version");
  }
};

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  OptionTable table(options);
  po::options_description all;
  all.add(table.shown).add_options()("run", po::value(&options.runs));
  po::positional_options_description positional;
  positional.add("run", -1);
  const po::variables_map given = trainer::parse_arguments(arguments, all, positional);
  if (options.help || options.version) return options;
  if (options.json && options.csv) throw UsageError("give --json or --csv, not both");
  if (given.contains("html"))
    options.html = table.html;
  else if (options.json || options.csv)
    options.html.clear();
  if (given.contains("html") && options.html.empty()) throw UsageError("--html: names no file");
  if (!table.price.empty()) options.price = parse_price(table.price);
  if (options.warm_up < 0)
    throw UsageError("--warm-up=" + std::to_string(options.warm_up) + ": must be 0 or more steps");
  if (options.runs.empty())
    throw UsageError(
        "no run: name files of bellows-train --metrics or bellows-run --events, or folders "
        "with such files");
  return options;
}

std::string help_text() {
  Options options;
  const OptionTable table(options);
  std::ostringstream out;
  out << "usage: bellows report [OPTION…] RUN…\n"
         "Shows how runs went and how they scaled, as a page of its own and a summary.\n"
         "RUN is a file that bellows-train --metrics or bellows-run --events has written, or a\n"
         "folder with such files (*.jsonl); several runs are compared. See bellows-report(1).\n\n"
      << table.shown
      << "\nExit status: 0 done, 1 failure, 2 wrong use, a run that cannot be read, or runs that\n"
         "cannot be compared.\n";
  return out.str();
}

}  // namespace bellows::report
