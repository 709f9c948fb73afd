// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/run_options.h"

#include <unistd.h>

#include <array>
#include <boost/program_options.hpp>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "config.h"

namespace bellows::elastic {
namespace po = boost::program_options;
namespace {

constexpr const char* kUsage =
    "usage: bellows-run [OPTIONS] PROGRAM [ARGUMENTS…]\n"
    "       bellows-run --reattach JOB\n"
    "\n"
    "Starts an MPI program: on the nodes of the Slurm allocation it is called in, else here.\n";

po::options_description make_options() {
  po::options_description all;
  po::options_description place("Where and how many");
  place.add_options()("ranks,n", po::value<int>()->value_name("N"),
                      "number of ranks [Slurm's number of tasks, else one per node or core]")(
      "ranks-per-node", po::value<int>()->value_name("N"), "ranks on each node, at most")(
      "local-nodes", po::value<int>()->value_name("N"),
      "run on this machine as if it were N nodes, also inside an allocation")(
      "chdir,D", po::value<std::string>()->value_name("DIR"), "folder of the ranks [this one]")(
      "bind-to", po::value<std::string>()->value_name("WHAT")->default_value("auto"),
      "core: an equal share of the node's cores for each rank; none; auto: core if there are "
      "enough, else none")("gpus-per-rank", po::value<int>()->value_name("N")->default_value(0),
                           "give each rank its own N of the node's GPUs (CUDA_VISIBLE_DEVICES)");
  po::options_description output("Output");
  output.add_options()("tag-output", "begin each line with the rank that wrote it")(
      "report-bindings", "say which cores each rank got")("verbose,v", "say what happens when")(
      "events", po::value<std::string>()->value_name("FILE"),
      "append a line of JSON for each event of the job, for `bellows events --file`")(
      "metrics", po::value<std::string>()->value_name("[ADDRESS:]PORT"),
      "answer Prometheus there, at /metrics [the address: 127.0.0.1]")(
      "metrics-file", po::value<std::string>()->value_name("FILE"),
      "write the same to a file every 5 seconds, for the textfile collector of its node exporter");
  po::options_description failure("Failures and limits");
  failure.add_options()(
      "on-failure", po::value<std::string>()->value_name("stop|continue")->default_value("stop"),
      "when a rank fails: stop the others, or tell them (ULFM) and let them go on")(
      "kill-wait", po::value<double>()->value_name("SECONDS")->default_value(5),
      "between SIGTERM and SIGKILL when ranks are stopped")(
      "start-timeout", po::value<double>()->value_name("SECONDS")->default_value(60),
      "for all nodes to report")("silence-timeout",
                                 po::value<double>()->value_name("SECONDS")->default_value(10),
                                 "without a sign of life after which a node is lost")(
      "port", po::value<std::string>()->value_name("PORT[-PORT]"),
      "where to listen for the agents [any free port]");
  po::options_description elastic("A world that changes");
  elastic.add_options()(
      "elastic", po::value<std::string>()->value_name("MIN-MAX|auto|none"),
      "ranks may die, join and leave (`bellows resize`) while the program goes on, which must use "
      "ElasticWorld; below MIN the job ends; auto: as the Slurm job was submitted "
      "(BELLOWS_ELASTIC, "
      "in nodes) [auto where that is set]")(
      "standalone-elastic",
      "follow the cluster by itself (turbo, economic) even where there is a bellowsd")(
      "rank-timeout", po::value<double>()->value_name("SECONDS")->default_value(5),
      "without a sign of life after which a rank is killed (it is stopped, or its node starves)")(
      "change-timeout", po::value<double>()->value_name("SECONDS")->default_value(20),
      "for a changed world to form before those who hold it up are replaced, then killed")(
      "launcher-grace", po::value<double>()->value_name("SECONDS")->default_value(60),
      "how long the ranks go on when bellows-run has died, for another to take over; 0: they end "
      "at once")("reattach", po::value<std::string>()->value_name("JOB"),
                 "instead of a program: take over the elastic job of a bellows-run that has died");
  po::options_description other("Other");
  other.add_options()("agent", po::value<std::string>()->value_name("FILE"),
                      "bellows-agent [beside this program, else in PATH]")("help,h", "this text")(
      "version", "the version");
  all.add(place).add(output).add(failure).add(elastic).add(other);
  return all;
}

// Far above what one launcher can hold; a slip of the finger shall not take the machine's memory.
constexpr int kMostRanks = 100'000;
constexpr int kMostLocalNodes = 1'000;
constexpr int kMostGpus = 1'000;

int number(const po::variables_map& values, const char* name, int least, int most) {
  const int value = values[name].as<int>();
  if (value < least || value > most) {
    throw UsageError("--" + std::string(name) + "=" + std::to_string(value) +
                     ": must be at least " + std::to_string(least) + " and at most " +
                     std::to_string(most));
  }
  return value;
}

double seconds(const po::variables_map& values, const char* name, bool may_be_zero = false) {
  const double value = values[name].as<double>();
  if (may_be_zero && value == 0) return 0;
  if (!(value >= 0.1) || value > 1e6) {
    throw UsageError("--" + std::string(name) + ": must be from 0.1 to 1000000 seconds");
  }
  return value;
}

// All else is as the job was started with.
void check_reattach(const po::variables_map& values, bool program_named) {
  if (program_named) throw UsageError("--reattach takes no program: the job has one");
  for (const auto& [name, value] : values) {
    const bool may_be_given =
        name == "reattach" || name == "verbose" || name == "tag-output" || name == "start-timeout";
    if (!value.defaulted() && !may_be_given) {
      throw UsageError("--reattach and --" + name +
                       " exclude each other: the job keeps what it was started with");
    }
  }
}

std::pair<std::uint16_t, std::uint16_t> port_range(const std::string& text) {
  const auto number = [&](std::string_view part) {
    std::uint16_t port = 0;
    const auto [end, failed] = std::from_chars(part.data(), part.data() + part.size(), port);
    if (failed != std::errc() || end != part.data() + part.size() || port == 0) {
      throw UsageError("--port=" + text + ": must be PORT or PORT-PORT, each from 1 to 65535");
    }
    return port;
  };
  const std::size_t dash = text.find('-');
  const std::string_view whole(text);
  const auto first = number(whole.substr(0, dash));
  const auto last = dash == std::string::npos ? first : number(whole.substr(dash + 1));
  if (last < first) throw UsageError("--port=" + text + ": the second port is below the first");
  return {first, last};
}

std::pair<int, int> elastic_range(const std::string& text) {
  const auto wrong = [&] {
    return UsageError("--elastic=" + text + ": must be MIN-MAX, from 1 to " +
                      std::to_string(kMostRanks) + ", such as 1-8; auto or none");
  };
  const char* const end = text.data() + text.size();
  int least = 0, most = 0;
  const auto [dash, failed] = std::from_chars(text.data(), end, least);
  if (failed != std::errc() || dash == end || *dash != '-') throw wrong();
  const auto [after, failed_too] = std::from_chars(dash + 1, end, most);
  if (failed_too != std::errc() || after != end) throw wrong();
  if (least < 1 || most < least || most > kMostRanks) throw wrong();
  return {least, most};
}

// Beside this program, else wherever PATH has it.
std::string companion_program(const std::string& name) {
  std::error_code failed;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    const auto beside = own.parent_path() / name;
    if (access(beside.c_str(), X_OK) == 0) return beside.string();
  }
  return name;
}

// Options end where the program's name stands: what follows is the program's own.
int count_own_arguments(int argc, char** argv, const po::options_description& options) {
  int i = 1;
  while (i < argc) {
    const std::string argument = argv[i];
    if (argument == "--") return i;
    if (argument.size() < 2 || argument[0] != '-') return i;
    const bool is_long = argument[1] == '-';
    const std::size_t equals = argument.find('=');
    const po::option_description* option =
        is_long
            ? options.find_nothrow(
                  argument.substr(2, equals == std::string::npos ? std::string::npos : equals - 2),
                  false)
            : options.find_nothrow(argument.substr(0, 2), false);
    const bool takes_value = option != nullptr && option->semantic()->max_tokens() > 0;
    const bool value_attached = is_long ? equals != std::string::npos : argument.size() > 2;
    i += takes_value && !value_attached ? 2 : 1;
  }
  return std::min(i, argc);
}

void take_metrics(RunOptions& options, const po::variables_map& values) {
  if (values.contains("metrics")) {
    try {
      options.metrics = protocol::MetricsAddress::parse(values["metrics"].as<std::string>());
    } catch (const std::invalid_argument& wrong) {
      throw UsageError(std::string("--metrics: ") + wrong.what());
    }
  }
  if (!values.contains("metrics-file")) return;
  options.metrics_file = values["metrics-file"].as<std::string>();
  if (options.metrics_file.empty()) throw UsageError("--metrics-file: must be the name of a file");
  options.metrics_file = std::filesystem::absolute(options.metrics_file).string();
}

}  // namespace

RunOptions parse_run_options(int argc, char** argv) {
  const po::options_description description = make_options();
  const int own = count_own_arguments(argc, argv, description);
  po::variables_map values;
  try {
    // Abbreviations would change their meaning when options are added.
    using po::command_line_style::allow_guessing;
    const int style = po::command_line_style::default_style & ~allow_guessing;
    po::store(
        po::command_line_parser(own, argv).options(description).positional({}).style(style).run(),
        values);
    po::notify(values);
  } catch (const po::error& wrong) {
    throw UsageError(wrong.what());
  }
  if (values.contains("help")) {
    std::cout << kUsage << description << "\nSee bellows-run(1).\n";
    std::exit(0);
  }
  if (values.contains("version")) {
    std::cout << "bellows-run " BELLOWS_VERSION "\n";
    std::exit(0);
  }

  RunOptions options;
  for (int i = own; i < argc; ++i) {
    if (i == own && std::string_view(argv[i]) == "--") continue;
    options.program.emplace_back(argv[i]);
  }
  if (values.contains("reattach")) {
    check_reattach(values, !options.program.empty());
    options.reattach = values["reattach"].as<std::string>();
  } else if (options.program.empty()) {
    throw UsageError("no program named");
  }
  if (values.contains("ranks")) options.ranks = number(values, "ranks", 1, kMostRanks);
  if (values.contains("ranks-per-node")) {
    options.ranks_per_node = number(values, "ranks-per-node", 1, kMostRanks);
  }
  if (values.contains("local-nodes")) {
    options.local_nodes = number(values, "local-nodes", 1, kMostLocalNodes);
  }
  options.directory = values.contains("chdir") ? values["chdir"].as<std::string>()
                                               : std::filesystem::current_path().string();
  options.bind = values["bind-to"].as<std::string>();
  try {
    bind_policy(options.bind);
  } catch (const std::invalid_argument& wrong) {
    throw UsageError(std::string("--bind-to: ") + wrong.what());
  }
  options.gpus_per_rank = number(values, "gpus-per-rank", 0, kMostGpus);
  options.tag_output = values.contains("tag-output");
  options.report_bindings = values.contains("report-bindings");
  options.verbose = values.contains("verbose");
  const std::string on_failure = values["on-failure"].as<std::string>();
  if (on_failure != "stop" && on_failure != "continue") {
    throw UsageError("--on-failure: '" + on_failure + "' is not one of stop, continue");
  }
  options.on_failure = on_failure == "stop" ? OnFailure::stop : OnFailure::go_on;
  const std::string elastic = values.contains("elastic") ? values["elastic"].as<std::string>() : "";
  options.elastic_named = elastic == "auto";
  options.elastic_auto =
      options.elastic_named || (elastic.empty() && values["on-failure"].defaulted());
  if (options.elastic_named && !values["on-failure"].defaulted()) {
    throw UsageError("--on-failure and --elastic exclude each other");
  }
  if (!elastic.empty() && elastic != "auto" && elastic != "none") {
    options.elastic = elastic_range(values["elastic"].as<std::string>());
    if (values.contains("on-failure") && !values["on-failure"].defaulted()) {
      throw UsageError("--on-failure and --elastic exclude each other");
    }
    options.on_failure = OnFailure::go_on;
    if (options.ranks && *options.ranks > options.elastic->second) {
      throw UsageError("-n " + std::to_string(*options.ranks) + " is more than --elastic=" +
                       values["elastic"].as<std::string>() + " allows");
    }
  }
  options.standalone = values.contains("standalone-elastic");
  if (options.standalone && elastic == "none") {
    throw UsageError("--standalone-elastic and --elastic=none exclude each other");
  }
  options.rank_silence_seconds = seconds(values, "rank-timeout");
  options.change_seconds = seconds(values, "change-timeout");
  options.grace_seconds = seconds(values, "launcher-grace", true);
  options.kill_wait_seconds = seconds(values, "kill-wait");
  options.start_seconds = seconds(values, "start-timeout");
  options.silence_seconds = seconds(values, "silence-timeout");
  if (values.contains("port")) options.ports = port_range(values["port"].as<std::string>());
  if (values.contains("events")) {
    options.events = values["events"].as<std::string>();
    if (options.events.empty()) throw UsageError("--events: must be the name of a file");
    options.events = std::filesystem::absolute(options.events).string();
  }
  take_metrics(options, values);
  options.agent = values.contains("agent") ? values["agent"].as<std::string>()
                                           : companion_program("bellows-agent");
  options.broker = companion_program("bellows-broker");
  return options;
}

}  // namespace bellows::elastic
