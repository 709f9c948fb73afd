// SPDX-License-Identifier: Apache-2.0
#include "trainer/bench/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "trainer/tool.h"

namespace bellows::bench {
namespace po = boost::program_options;

namespace {

constexpr int kMostRanks = 100'000;

int whole(const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, failed] = std::from_chars(text.data(), end, number);
  return failed == std::errc() && after == end ? number : -1;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);)
    if (at != ' ' || !part.empty()) parts.push_back(part);
  return parts;
}

std::vector<int> parse_ranks(const std::string& text) {
  std::vector<int> ranks;
  for (const std::string& item : split(text, ',')) {
    const int number = whole(item);
    if (number < 1 || number > kMostRanks)
      throw UsageError("--ranks=" + text + ": must be numbers of ranks with commas in between");
    ranks.push_back(number);
  }
  if (ranks.empty() || text.ends_with(',') ||
      std::set(ranks.begin(), ranks.end()).size() != ranks.size())
    throw UsageError("--ranks=" + text + ": must be different numbers with commas in between");
  return ranks;
}

/// What the allocation, or this machine, has.
int most_ranks() {
  const char* tasks = std::getenv("SLURM_NTASKS");
  const int said = tasks != nullptr ? whole(tasks) : -1;
  if (said > 0) return said;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

struct Table {
  po::options_description shown{"Options"};
  std::string ranks, launch;

  explicit Table(Options& o) {
    shown.add_options()("ranks", po::value(&ranks)->value_name("N,…"),
                        "sizes to measure [1, 2, 4 and so on, up to what there is]")(
        "weak", po::bool_switch(&o.weak), "the work per rank stays the same, not that of all")(
        "steps", po::value(&o.steps)->value_name("N")->default_value(o.steps), "of each size")(
        "warm-up", po::value(&o.warm_up)->value_name("N")->default_value(o.warm_up),
        "steps before those, that do not count")(
        "repeat", po::value(&o.repeat)->value_name("N")->default_value(o.repeat),
        "do it all so often")("output",
                              po::value(&o.folder)->value_name("DIR")->default_value(o.folder),
                              "where it all goes; must not be there yet")(
        "launch", po::value(&launch)->value_name("OPTIONS"), "further options of bellows-run")(
        "limit", po::value(&o.limit)->value_name("SECONDS")->default_value(o.limit),
        "for one size")("help,h", po::bool_switch(&o.help), "show this")(
        "version", po::bool_switch(&o.version), "show the version");
  }
};

bool takes_value(const po::options_description& options, const std::string& argument) {
  if (!argument.starts_with("--") || argument.find('=') != std::string::npos) return false;
  const po::option_description* option = options.find_nothrow(argument.substr(2), false);
  return option != nullptr && option->semantic()->max_tokens() > 0;
}

void check(const Options& o) {
  const auto at_least = [](const char* name, int value, int low) {
    if (value < low || value > 100'000'000)
      throw UsageError(std::string("--") + name + "=" + std::to_string(value) + ": must be " +
                       std::to_string(low) + " or more");
  };
  at_least("steps", o.steps, 2);
  at_least("warm-up", o.warm_up, 0);
  at_least("repeat", o.repeat, 1);
  if (!(o.limit > 0) || o.limit > 1e6)
    throw UsageError("--limit: must be a number of seconds above 0");
  if (o.command.empty())
    throw UsageError("no program: bellows-bench [OPTION…] PROGRAM [ARGUMENT…]");
  if (!o.is_trainer()) return;
  if (!option_of(o.command, "metrics").empty())
    throw UsageError("--metrics: bellows-bench has the training write them to its folder");
  if (o.weak && whole(option_of(o.command, "batch")) < 1)
    throw UsageError("--weak: the program needs --batch, which is taken times the ranks");
  const std::string rule = option_of(o.command, "batch-rule");
  if (rule == "adaptive" || !option_of(o.command, "policy").empty())
    throw UsageError(std::string(rule == "adaptive" ? "--batch-rule adaptive" : "--policy") +
                     ": changes the batch while sizes are measured, so they cannot be compared; "
                     "leave it out");
  if (o.weak && !rule.empty() && rule != "fixed")
    throw UsageError("--weak: not with --batch-rule " + rule +
                     ", which sets the batch by the ranks itself; leave one of them out");
}

}  // namespace

bool Options::is_trainer() const {
  return !command.empty() && std::filesystem::path(command[0]).filename() == "bellows-train";
}

std::string option_of(const std::vector<std::string>& command, const std::string& name) {
  std::string value;
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i].starts_with("--" + name + "=")) value = command[i].substr(name.size() + 3);
    if (command[i] == "--" + name && i + 1 < command.size()) value = command[i + 1];
  }
  return value;
}

std::vector<int> sizes_up_to(int most) {
  std::vector<int> sizes;
  for (int n = 1; n < most; n *= 2) sizes.push_back(n);
  sizes.push_back(most);
  return sizes;
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  Table table(options);
  // The program begins with the first argument that is neither an option of ours nor its value.
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].starts_with("-") && arguments[at] != "--")
    at += takes_value(table.shown, arguments[at]) ? 2 : 1;
  at = std::min(at, arguments.size());
  const auto middle = arguments.begin() + static_cast<std::ptrdiff_t>(at);
  options.command.assign(middle, arguments.end());
  if (!options.command.empty() && options.command[0] == "--")
    options.command.erase(options.command.begin());
  trainer::parse_arguments({arguments.begin(), middle}, table.shown);
  if (options.help || options.version) return options;
  options.ranks = table.ranks.empty() ? sizes_up_to(most_ranks()) : parse_ranks(table.ranks);
  options.launch = split(table.launch, ' ');
  check(options);
  return options;
}

std::string help_text() {
  Options options;
  const Table table(options);
  std::ostringstream out;
  out << "usage: bellows-bench [OPTION…] PROGRAM [ARGUMENT…]\n"
         "Measures how a program's speed grows with the number of ranks: one job that goes from\n"
         "size to size while the program runs, and then a report. PROGRAM is bellows-train, or\n"
         "one that uses ElasticWorld and tells its progress (ElasticWorld::report).\n\n"
      << table.shown << "\nExit status: 0 done, 1 failure, 2 wrong use.\n";
  return out.str();
}

}  // namespace bellows::bench
