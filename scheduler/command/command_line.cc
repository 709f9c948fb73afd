// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/command_line.h"

#include <algorithm>
#include <boost/json.hpp>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <set>

#include "protocol/control_socket.h"
#include "scheduler/command/since.h"
#include "scheduler/command/size_request.h"

namespace bellows::scheduler {
namespace json = boost::json;
namespace po = boost::program_options;
using protocol::Message;
using What = Command::What;

namespace {

constexpr std::int64_t kMostRanks = 100'000;
constexpr const char* kDefaultWait = "60";
constexpr double kLongestWait = 86'400;
constexpr double kShortestInterval = 0.2, kLongestInterval = 3600;
const std::string kCommands = "status, events, top, resize, leave, jobs, picture or report";

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [after, failed] = std::from_chars(begin, end, value);
  if (failed != std::errc() || after != end || text.starts_with('-')) return std::nullopt;
  return value;
}

std::vector<std::string> items(const std::string& list) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t comma = 0; comma != std::string::npos; start = comma + 1) {
    comma = list.find(',', start);
    parts.push_back(list.substr(start, comma == std::string::npos ? comma : comma - start));
  }
  return parts;
}

[[noreturn]] void bad_list(const std::string& option, const std::string& text,
                           const std::string& why) {
  throw UsageError(option + "=" + text + ": " + why);
}

json::array node_list(const std::string& option, const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  };
  json::array nodes;
  std::set<std::string> seen;
  for (const std::string& node : items(text)) {
    if (node.empty() || !std::ranges::all_of(node, plain)) {
      bad_list(option, text, "must be names of nodes with commas in between");
    }
    if (!seen.insert(node).second) bad_list(option, text, "names " + node + " twice");
    nodes.emplace_back(node);
  }
  return nodes;
}

json::array rank_list(const std::string& text) {
  json::array ranks;
  std::set<std::int64_t> seen;
  for (const std::string& item : items(text)) {
    const auto rank = whole_number(item);
    if (!rank || *rank >= kMostRanks) {
      bad_list("--ranks", text, "must be ranks (0, 1, …) with commas in between");
    }
    if (!seen.insert(*rank).second) bad_list("--ranks", text, "names " + item + " twice");
    ranks.emplace_back(*rank);
  }
  return ranks;
}

std::chrono::milliseconds wait_time(const std::string& text) {
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [after, failed] = std::from_chars(text.data(), end, seconds);
  if (failed != std::errc() || after != end || !(seconds >= 0) || seconds > kLongestWait) {
    throw UsageError("--wait=" + text + ": must be from 0 (do not wait) to 86400 seconds");
  }
  return std::chrono::milliseconds(std::llround(std::ceil(seconds * 1000)));
}

// N, +N or -N.
void add_size(Message& request, const std::string& text) {
  const bool change = text.starts_with('+') || text.starts_with('-');
  const auto number = whole_number(std::string_view(text).substr(change ? 1 : 0));
  if (!number || *number < 1 || *number > kMostRanks) {
    throw UsageError("resize " + text + ": must be N, +N or -N ranks, N from 1 to " +
                     std::to_string(kMostRanks));
  }
  if (change) {
    request.head["delta"] = text[0] == '-' ? -*number : *number;
  } else {
    request.head["ranks"] = *number;
  }
}

po::options_description options_of(What what) {
  po::options_description options;
  auto add = options.add_options();
  add("help", "");
  add("version", "");
  if (what == What::top) {
    add("job", po::value<std::vector<std::string>>());
    add("socket", po::value<std::vector<std::string>>());
    add("interval", po::value<std::string>());
    add("once", "");
    add("all", "");
  } else {
    add("job", po::value<std::string>());
    add("socket", po::value<std::string>());
  }
  if (what != What::leave && what != What::help) add("json", "");
  if (what == What::events) {
    add("follow", "");
    add("since", po::value<std::string>());
    add("file", po::value<std::string>());
  }
  if (what == What::picture) add("output", po::value<std::string>());
  if (what == What::resize) {
    add("on", po::value<std::string>());
    add("nodes", po::value<std::string>());
    add("component", po::value<int>());
    add("operator", "");
  }
  if (what == What::leave) {
    add("ranks", po::value<std::string>());
    add("nodes", po::value<std::string>());
  }
  if (what == What::resize || what == What::leave) {
    add("wait", po::value<std::string>()->default_value(kDefaultWait));
  }
  return options;
}

struct Parsed {
  po::variables_map values;
  std::vector<std::string> others;  // what is no option
};

// Short options are off: "-2" is a number.
Parsed parse(What what, const std::vector<std::string>& arguments) {
  po::options_description all = options_of(what);
  all.add_options()("other", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("other", -1);
  Parsed parsed;
  using namespace po::command_line_style;
  po::store(po::command_line_parser(arguments)
                .options(all)
                .positional(positional)
                .style(allow_long | long_allow_adjacent | long_allow_next)
                .run(),
            parsed.values);
  po::notify(parsed.values);
  if (parsed.values.contains("other")) {
    parsed.others = parsed.values["other"].as<std::vector<std::string>>();
  }
  return parsed;
}

std::string text(const po::variables_map& values, const char* name) {
  return values[name].as<std::string>();
}

// The first argument that is neither a general option nor one's value.
std::size_t command_at(const std::vector<std::string>& arguments) {
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].starts_with("-")) {
    at += arguments[at] == "--job" || arguments[at] == "--socket" ? 2 : 1;
  }
  return std::min(at, arguments.size());
}

What command_named(const std::string& name) {
  if (name == "status") return What::status;
  if (name == "events") return What::events;
  if (name == "resize") return What::resize;
  if (name == "leave") return What::leave;
  if (name == "jobs") return What::jobs;
  if (name == "top") return What::top;
  if (name == "picture") return What::picture;
  throw UsageError("unknown command '" + name + "': must be " + kCommands);
}

void take_target(Command& command, const po::variables_map& values) {
  if (values.contains("job")) {
    command.job = text(values, "job");
    if (!protocol::is_job_name(*command.job)) {
      throw UsageError("--job=" + *command.job + ": must be a job's name, like 4711 or local-123");
    }
  }
  if (values.contains("socket")) command.socket = text(values, "socket");
  if (command.job && command.socket) throw UsageError("give --job or --socket, not both");
}

void take_wait(Command& command, const po::variables_map& values) {
  command.wait = wait_time(text(values, "wait"));
  command.request.head["wait"] = command.wait.count() > 0;
}

// The allocation changes, and with it the world.
void take_resize_nodes(Command& command, const Parsed& parsed) {
  if (!parsed.others.empty() || parsed.values.contains("on")) {
    throw UsageError("resize takes either a number of ranks (and --on), or --nodes");
  }
  const std::string nodes = text(parsed.values, "nodes");
  try {
    parse_size_request(nodes);
  } catch (const std::invalid_argument& wrong) {
    throw UsageError(std::string("--nodes: ") + wrong.what());
  }
  command.to_broker = true;
  command.request = Message("resize-nodes");
  command.request.head["nodes"] = nodes;
  if (parsed.values.contains("component")) {
    const int component = parsed.values["component"].as<int>();
    if (component < 0 || component > 10'000) {
      throw UsageError("--component=" + std::to_string(component) + ": must be from 0 to 10000");
    }
    command.request.head["component"] = component;
  }
  if (parsed.values.contains("operator")) {
    const auto job = command.job ? whole_number(*command.job) : std::nullopt;
    if (!job || *job < 1 || *job > UINT32_MAX) {
      throw UsageError("--operator needs the number of a Slurm job: --job=JOB");
    }
    command.as_operator = true;
    command.request.head["job"] = *job;
  }
  take_wait(command, parsed.values);
  command.request.head["limit"] = static_cast<double>(command.wait.count()) / 1000;
}

void take_resize(Command& command, const Parsed& parsed) {
  command.json = parsed.values.contains("json");
  if (parsed.values.contains("nodes")) {
    take_resize_nodes(command, parsed);
    return;
  }
  for (const char* option : {"component", "operator"}) {
    if (parsed.values.contains(option)) {
      throw UsageError(std::string("--") + option + " goes with --nodes");
    }
  }
  if (parsed.others.size() != 1) {
    throw UsageError(
        "resize takes one number, N, +N or -N (and --wait its value as --wait=SECONDS), or "
        "--nodes");
  }
  command.request = Message("resize");
  add_size(command.request, parsed.others[0]);
  if (parsed.values.contains("on")) {
    if (parsed.others[0].starts_with('-')) {
      throw UsageError("--on says where to grow, and resize " + parsed.others[0] +
                       " shrinks: 'bellows leave --nodes' takes ranks from nodes");
    }
    command.request.head["nodes"] = node_list("--on", text(parsed.values, "on"));
  }
  take_wait(command, parsed.values);
}

void take_leave(Command& command, const Parsed& parsed) {
  const bool ranks = parsed.values.contains("ranks");
  if (ranks == parsed.values.contains("nodes")) {
    throw UsageError("leave takes either --ranks=R,… or --nodes=NODE,…");
  }
  command.request = Message("leave");
  if (ranks) {
    command.request.head["ranks"] = rank_list(text(parsed.values, "ranks"));
  } else {
    command.request.head["nodes"] = node_list("--nodes", text(parsed.values, "nodes"));
  }
  take_wait(command, parsed.values);
}

void take_events(Command& command, const po::variables_map& values) {
  command.json = values.contains("json");
  command.follow = values.contains("follow");
  if (values.contains("file")) command.file = text(values, "file");
  if (command.file && (command.follow || command.job || command.socket)) {
    throw UsageError("--file reads what a job has left: no --follow, --job or --socket");
  }
  if (!values.contains("since")) return;
  const std::string since = text(values, "since");
  command.since = parse_since(since, std::chrono::system_clock::now());
  if (!command.since) {
    throw UsageError("--since=" + since +
                     ": must be a time ago (90s, 10m, 2h, 1d), a time of today (14:05) or a day "
                     "and perhaps a time (2026-01-31T14:05)");
  }
}

void take_top(Command& command, const po::variables_map& values) {
  command.json = values.contains("json");
  command.once = values.contains("once");
  command.everybody = values.contains("all");
  if (values.contains("job")) {
    for (const std::string& list : values["job"].as<std::vector<std::string>>()) {
      for (const std::string& name : items(list)) {
        if (!protocol::is_job_name(name)) {
          throw UsageError("--job=" + list + ": must be jobs' names, like 4711 or local-123");
        }
        command.jobs.push_back(name);
      }
    }
  }
  if (values.contains("socket")) {
    command.sockets = values["socket"].as<std::vector<std::string>>();
  }
  if (command.everybody && (!command.jobs.empty() || !command.sockets.empty())) {
    throw UsageError("--all shows all that bellowsd knows: no --job, --socket");
  }
  if (!values.contains("interval")) return;
  const std::string said = text(values, "interval");
  double seconds = 0;
  const auto [after, failed] = std::from_chars(said.data(), said.data() + said.size(), seconds);
  if (failed != std::errc() || after != said.data() + said.size() ||
      !(seconds >= kShortestInterval && seconds <= kLongestInterval)) {
    throw UsageError("--interval=" + said + ": must be from 0.2 to 3600 seconds");
  }
  command.interval = std::chrono::milliseconds(std::llround(seconds * 1000));
}

void take_picture(Command& command, const Parsed& parsed) {
  if (command.job || command.socket) {
    throw UsageError("picture reads files that bellowsd has written: no --job, --socket");
  }
  command.json = parsed.values.contains("json");
  command.files = parsed.others;
  if (command.files.empty()) {
    throw UsageError("picture takes files that bellowsd has written (event-file)");
  }
  if (parsed.values.contains("output")) command.output = text(parsed.values, "output");
  if (command.json && !command.output.empty()) {
    throw UsageError("--json goes to standard output: no --output");
  }
}

Command parse_arguments(std::vector<std::string> arguments) {
  Command command;
  const std::size_t at = command_at(arguments);
  if (at < arguments.size()) {
    command.what = command_named(arguments[at]);
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
  }
  // Boost would take the next argument for its value: "resize --wait 4".
  if (command.what == What::resize || command.what == What::leave)
    std::ranges::replace(arguments, std::string("--wait"), std::string("--wait=") + kDefaultWait);
  if (command.what == What::picture)
    std::ranges::replace(arguments, std::string("-o"), std::string("--output"));
  const bool named = command.what != What::help;
  const Parsed parsed = parse(command.what, arguments);
  const auto is_help = [](const std::string& other) { return other == "-h"; };
  if (parsed.values.contains("help") || std::ranges::any_of(parsed.others, is_help)) {
    command.what = What::help;
    return command;
  }
  if (parsed.values.contains("version")) {
    command.what = What::version;
    return command;
  }
  for (const std::string& other : parsed.others) {
    const bool number = other.size() > 1 && std::isdigit(static_cast<unsigned char>(other[1])) != 0;
    if (other.starts_with('-') && !number) throw UsageError("unknown option " + other);
    if (command.what != What::resize && command.what != What::picture)
      throw UsageError("unexpected argument '" + other + "'");
  }
  if (!named) throw UsageError("no command: must be " + kCommands);
  if (command.what == What::top) {
    take_top(command, parsed.values);
    return command;
  }
  take_target(command, parsed.values);
  if (command.what == What::picture) {
    take_picture(command, parsed);
    return command;
  }
  if (command.what == What::jobs) {
    if (command.job || command.socket) throw UsageError("jobs lists all jobs: no --job, --socket");
    command.json = parsed.values.contains("json");
    command.request = Message("jobs");
    return command;
  }
  if (command.what == What::status) {
    command.json = parsed.values.contains("json");
    command.request = Message("status");
  } else if (command.what == What::events) {
    take_events(command, parsed.values);
  } else if (command.what == What::resize) {
    take_resize(command, parsed);
  } else {
    take_leave(command, parsed);
  }
  return command;
}

}  // namespace

Command parse_command(const std::vector<std::string>& arguments) {
  try {
    return parse_arguments(arguments);
  } catch (const po::error& wrong) {
    throw UsageError(wrong.what());
  }
}

std::string help_text() {
  return "usage: bellows [--job=JOB | --socket=PATH] status [--json]\n"
         "       bellows [--job=JOB | --socket=PATH] events [--follow] [--since=TIME] [--json]\n"
         "       bellows events --file=FILE [--since=TIME] [--json]\n"
         "       bellows [--job=JOB | --socket=PATH] resize N|+N|-N [--on=NODE[,NODE…]]\n"
         "                                                  [--wait[=SECONDS]] [--json]\n"
         "       bellows [--job=JOB | --socket=PATH] resize --nodes=N|+N|-N|NODES [--component=K]\n"
         "                                                  [--wait[=SECONDS]] [--json]\n"
         "       bellows [--job=JOB | --socket=PATH] leave --ranks=R[,R…] | --nodes=NODE[,NODE…]\n"
         "                                                 [--wait[=SECONDS]]\n"
         "       bellows jobs [--json]\n"
         "       bellows top [--job=JOB[,JOB…] | --socket=PATH | --all] [--interval=SECONDS] "
         "[--once]\n"
         "                                                  [--json]\n"
         "       bellows picture FILE… [-o FILE | --json]\n"
         "       bellows report [OPTION…] RUN…\n"
         "       bellows --help | --version\n"
         "\n"
         "Talks to a running job of bellows-run --elastic that was started on this machine.\n"
         "\n"
         "  status    its ranks and nodes, its progress, its latest changes\n"
         "  events    what has happened to it: changes of the world, losses, nodes asked for\n"
         "  resize    to N ranks, or N more, or N fewer; with --nodes the Slurm job gets so many "
         "nodes,\n"
         "            or these (+NODES: these more, -NODES: these fewer), and ranks on them\n"
         "  leave     lets these ranks, or all ranks of these nodes, go\n"
         "  jobs      the elastic jobs that bellowsd knows, and what it has decided lately\n"
         "  top       your jobs, shown anew every 2 seconds: size, progress, speed, last event\n"
         "  picture   who had which nodes when, as a page for a browser, from what bellowsd has "
         "written\n"
         "  report    how runs went and scaled, from what they left: bellows report --help\n"
         "\n"
         "  --job=JOB         the job [$SLURM_JOB_ID, else the only one there is]\n"
         "  --socket=PATH     its control socket\n"
         "  --json            print the answer as JSON; each event as a line\n"
         "  --follow          go on until the job ends\n"
         "  --since=TIME      10m (ago), 14:05, 2026-01-31T14:05\n"
         "  --file=FILE       what bellows-run --events=FILE has written\n"
         "  --on=NODES        where to start the new ranks\n"
         "  --operator        with --nodes: another user's job, through bellowsd\n"
         "  --all             top: other users' jobs that bellowsd knows, too\n"
         "  --interval=SECONDS, --once\n"
         "                    top: between two looks; look once and end\n"
         "  -o FILE           picture: where the page goes [standard output]\n"
         "  --wait=SECONDS    for the change to be complete; 0: do not wait [60]\n"
         "\n"
         "Exit status: 0 granted, 1 refused or not complete in time, 2 wrong use, 3 no such job.\n";
}

}  // namespace bellows::scheduler
