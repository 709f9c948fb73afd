// SPDX-License-Identifier: Apache-2.0
// bellows-ckpt: looks into checkpoints, checks and compares them. See bellows-ckpt(1).
#include <boost/program_options.hpp>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "checkpoint/commands.h"
#include "checkpoint/error.h"
#include "config.h"

namespace {

namespace po = boost::program_options;
using bellows::checkpoint::DiffOptions;

constexpr int kUsage = 2;

constexpr const char* kHelp =
    "usage: bellows-ckpt ls [--json] FOLDER|FILE...\n"
    "       bellows-ckpt show [--json] [--values N] FILE [TENSOR...]\n"
    "       bellows-ckpt verify [--json] FOLDER|FILE...\n"
    "       bellows-ckpt diff [--json] [--tolerance T] [--relative R] [--only PREFIX]\n"
    "                         [--ignore PREFIX] FOLDER|FILE FOLDER|FILE\n"
    "       bellows-ckpt --help | --version\n"
    "\n"
    "  ls      lists checkpoints, newest first: step, time, size, status, file (quick look)\n"
    "  show    progress, options and tensors, with norm, minimum, maximum and mean\n"
    "  verify  checks every byte; exit status 1 when any file is not good\n"
    "  diff    compares two checkpoints; exit status 1 when they differ, 2 on trouble\n"
    "\n";

struct Usage {
  std::string complaint;
};

struct Parsed {
  po::variables_map values;
  std::vector<std::string> paths;
};

po::options_description options_of(const std::string& command) {
  po::options_description options("options of " + command);
  auto add = options.add_options();
  add("help,h", "print this help");
  add("json", "print JSON");
  if (command == "show")
    add("values", po::value<std::int64_t>()->default_value(20)->value_name("N"),
        "how many elements to print of each tensor named");
  if (command == "diff") {
    add("tolerance,t", po::value<double>()->default_value(0)->value_name("T"),
        "allowed absolute difference");
    add("relative,r", po::value<double>()->default_value(0)->value_name("R"),
        "allowed relative difference, added to the absolute one");
    add("only", po::value<std::vector<std::string>>()->value_name("PREFIX"),
        "compare only paths that begin so, e.g. parameters/ (repeatable)");
    add("ignore", po::value<std::vector<std::string>>()->value_name("PREFIX"),
        "leave out paths that begin so (repeatable)");
  }
  return options;
}

Parsed parse(const po::options_description& visible, const std::vector<std::string>& arguments) {
  po::options_description all;
  all.add(visible).add_options()("path", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("path", -1);
  Parsed parsed;
  using namespace po::command_line_style;
  po::store(po::command_line_parser(arguments)
                .options(all)
                .positional(positional)
                .style(unix_style & ~allow_guessing)
                .run(),
            parsed.values);
  po::notify(parsed.values);
  if (parsed.values.count("path") > 0)
    parsed.paths = parsed.values["path"].as<std::vector<std::string>>();
  return parsed;
}

std::vector<std::string> texts(const po::variables_map& values, const char* name) {
  return values.count(name) > 0 ? values[name].as<std::vector<std::string>>()
                                : std::vector<std::string>();
}

int diff(const Parsed& parsed, bool json) {
  if (parsed.paths.size() != 2) throw Usage{"diff takes two checkpoints"};
  DiffOptions options;
  options.tolerance = {parsed.values["tolerance"].as<double>(),
                       parsed.values["relative"].as<double>()};
  if (!(options.tolerance.absolute >= 0 && options.tolerance.relative >= 0))
    throw Usage{"a tolerance is not negative"};
  options.only = texts(parsed.values, "only");
  options.ignore = texts(parsed.values, "ignore");
  options.json = json;
  return bellows::checkpoint::diff_command(parsed.paths[0], parsed.paths[1], options);
}

int run(const std::string& command, const std::vector<std::string>& arguments) {
  if (command != "ls" && command != "show" && command != "verify" && command != "diff")
    throw Usage{"unknown command '" + command + "'"};
  const po::options_description options = options_of(command);
  const Parsed parsed = parse(options, arguments);
  if (parsed.values.count("help") > 0) {
    std::cout << kHelp << options;
    return 0;
  }
  if (parsed.paths.empty()) throw Usage{command + " needs a file or a folder"};
  const bool json = parsed.values.count("json") > 0;
  if (command == "diff") return diff(parsed, json);
  const bellows::checkpoint::Paths paths(parsed.paths.begin(), parsed.paths.end());
  if (command == "ls") return bellows::checkpoint::list_command(paths, json);
  if (command == "verify") return bellows::checkpoint::verify_command(paths, json);
  const auto values = parsed.values["values"].as<std::int64_t>();
  if (values < 0) throw Usage{"--values is not negative"};
  return bellows::checkpoint::show_command(paths[0], {parsed.paths.begin() + 1, parsed.paths.end()},
                                           values, json);
}

int complain(const std::string& complaint) {
  std::cerr << "bellows-ckpt: " << complaint << "\ntry: bellows-ckpt --help\n";
  return kUsage;
}

int guarded(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  try {
    if (command == "--help" || command == "-h") {
      std::cout << kHelp;
      return 0;
    }
    if (command == "--version") {
      std::cout << "bellows-ckpt " BELLOWS_VERSION "\n";
      return 0;
    }
    if (command.empty()) return complain("no command");
    return run(command, {arguments.begin() + 1, arguments.end()});
  } catch (const Usage& usage) {
    return complain(usage.complaint);
  } catch (const po::error& error) {
    return complain(error.what());
  } catch (const std::exception& error) {
    std::cerr << "bellows-ckpt: " << error.what() << '\n';
    return command == "diff" ? kUsage : 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int status = guarded({argv + 1, argv + argc});
  std::cout.flush();
  if (std::cout) return status;
  std::cerr << "bellows-ckpt: cannot write the output\n";
  return kUsage;
}
