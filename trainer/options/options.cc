// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/options.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "trainer/errors.h"
#include "trainer/options/checks.h"
#include "trainer/options/table.h"

namespace bellows::trainer {

namespace po = boost::program_options;

namespace {

void parse_checkpoint_every(const std::string& text, Options& o) {
  if (text.empty()) return;
  const bool seconds = text.back() == 's';
  std::istringstream in(seconds ? text.substr(0, text.size() - 1) : text);
  double value = 0;
  in >> value;
  require(!in.fail() && in.peek() == EOF && value > 0 && value <= 1e12 &&
              (seconds || value == std::floor(value)),
          "--checkpoint-every " + text + ": use a number of steps (100) or of seconds (600s)");
  if (seconds)
    o.checkpoint_seconds = value;
  else
    o.checkpoint_steps = static_cast<std::int64_t>(value);
}

void parse_micro_batch_bounds(const std::string& text, Options& o) {
  if (text.empty()) return;
  std::istringstream in(text);
  char comma = 0;
  in >> o.micro_batch_least >> comma >> o.micro_batch_most;
  require(!in.fail() && in.peek() == EOF && comma == ',' && o.micro_batch_least >= 1 &&
              o.micro_batch_most >= o.micro_batch_least && o.micro_batch_most <= kMany,
          "--micro-batch-bounds " + text + ": use LEAST,MOST samples, such as 8,64");
  require(o.micro_batch == 0, "--micro-batch-bounds: not together with --micro-batch");
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

void parse_no_decay(const std::string& text, Options& o) {
  o.no_decay = parts_of(text);
  std::sort(o.no_decay.begin(), o.no_decay.end());
  for (const std::string& kind : o.no_decay)
    require(kind == "bias" || kind == "norm",
            "--no-decay " + text + ": use bias, norm or bias,norm");
}

void parse_lr_factors(const std::string& text, Options& o) {
  for (const std::string& part : parts_of(text)) {
    const auto sign = part.rfind('=');
    double factor = -1;
    char more = 0;
    std::istringstream in(sign == std::string::npos ? "" : part.substr(sign + 1));
    require(in >> factor && !(in >> more) && factor >= 0 && factor <= 1e6 && sign > 0,
            "--lr-factors " + part +
                ": use PATTERN=FACTOR, such as 'output.*=0.1', with a factor from 0 to 1e6");
    o.lr_factors.emplace_back(part.substr(0, sign), factor);
  }
}

void finish(Options& o, const Table& table, const po::variables_map& given) {
  for (const auto& [name, value] : given) {
    if (value.defaulted()) continue;
    const auto* text = boost::any_cast<std::string>(&value.value());
    require(text == nullptr || !text->empty(), "--" + name + ": its value is empty");
  }
  parse_checkpoint_every(table.checkpoint_every, o);
  parse_micro_batch_bounds(table.micro_batch_bounds, o);
  parse_no_decay(table.no_decay, o);
  parse_lr_factors(table.lr_factors, o);
}

// PyTorch's users type --epochs.
std::pair<std::string, std::string> alias(const std::string& argument) {
  if (argument == "--epochs") return {"passes", ""};
  if (argument.starts_with("--epochs=")) return {"passes", argument.substr(9)};
  return {};
}

std::vector<std::string> arguments(int argc, const char* const* argv) {
  std::vector<std::string> all;
  for (int i = 1; i < argc; ++i) {
    const auto [name, value] = alias(argv[i]);
    all.push_back(name.empty() ? argv[i] : "--" + name + (value.empty() ? "" : "=" + value));
  }
  return all;
}

// Abbreviations would change their meaning when options are added.
constexpr int kStyle =
    po::command_line_style::default_style & ~po::command_line_style::allow_guessing;

std::string with_dashes(std::string name) { return name.starts_with("-") ? name : "--" + name; }

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options o;
  Table table(o);
  po::variables_map given;
  std::string where;
  try {
    const po::positional_options_description none;
    const auto all = table.all();
    po::store(po::command_line_parser(arguments(argc, argv))
                  .options(all)
                  .positional(none)
                  .style(kStyle)
                  .run(),
              given);
    if (given.count("config") != 0) {
      where = given["config"].as<std::string>() + ": ";
      std::ifstream file(given["config"].as<std::string>());
      file.peek();  // opening a folder succeeds, reading it does not
      if (!file.is_open() || file.bad())
        throw UsageError("--config " + given["config"].as<std::string>() + ": cannot be read");
      po::store(po::parse_config_file(file, all), given);
    }
    po::notify(given);
  } catch (const po::unknown_option& e) {
    throw UsageError(where + with_dashes(e.get_option_name()) +
                     ": unknown option; --help lists all");
  } catch (const po::too_many_positional_options_error&) {
    throw UsageError("arguments without a name are not understood; --help lists all options");
  } catch (const po::error& e) {
    throw UsageError(where + e.what());
  }
  if (o.help || o.version) return o;
  finish(o, table, given);
  check_network(o, given);
  check(o, given);
  return o;
}

Options take_program_options(int& argc, char** argv, const Options& defaults) {
  Options o = defaults;
  Table table(o);
  po::options_description help;
  help.add_options()("bellows-help", po::bool_switch(&o.help), "");
  po::variables_map given;
  int kept = 1;
  try {
    const auto known = table.of_programs().add(help);
    const int last =
        static_cast<int>(std::find_if(argv + 1, argv + argc,
                                      [](const char* a) { return std::strcmp(a, "--") == 0; }) -
                         argv);
    const auto parsed = po::command_line_parser(arguments(last, argv))
                            .options(known)
                            .style(kStyle)
                            .allow_unregistered()
                            .run();
    po::store(parsed, given);
    po::notify(given);
    int at = 1;
    for (const auto& option : parsed.options) {
      const auto tokens = static_cast<int>(option.original_tokens.size());
      const bool ours = !option.unregistered && option.position_key < 0;
      for (int i = 0; i < tokens; ++i, ++at)
        if (!ours) argv[kept++] = argv[at];
    }
    for (int i = last + 1; i < argc; ++i) argv[kept++] = argv[i];
  } catch (const po::error& e) {
    throw UsageError(e.what());
  }
  argv[argc = kept] = nullptr;
  if (o.help) return o;
  finish(o, table, given);
  require(o.logical_ranks == 0, "--logical-ranks: is for bellows-train's own networks");
  require(o.passes > 0, "--passes: must be positive");
  check(o, given);
  return o;
}

std::string program_help_text(const Options& defaults) {
  Options o = defaults;
  const Table table(o);
  std::ostringstream out;
  out << table.of_programs();
  return out.str();
}

std::string help_text() {
  Options o;
  const Table table(o);
  std::ostringstream out;
  out << "usage: bellows-run [-n RANKS] bellows-train --model NAME --data SPEC [OPTION...]\n"
         "Trains a network on all ranks together. See bellows-train(1).\n\n";
  for (const auto* group : {&table.what, &table.how, &table.optimizer, &table.adapt, &table.limits,
                            &table.checkpoints, &table.output, &table.tests, &table.self})
    out << *group << "\n";
  out << "exit codes: 0 done, 1 failure, 2 wrong options or data, 3 stopped by a signal without\n"
         "a checkpoint, 85 (--requeue-code) stopped by a signal after a checkpoint\n";
  return out.str();
}

}  // namespace bellows::trainer
