// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/client.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "spank_plugin/checks.h"
#include "spank_plugin/command_line.h"
#include "spank_plugin/environment.h"
#include "spank_plugin/resize_request.h"
#include "spank_plugin/slurm_spank.h"

namespace bellows::spank {
namespace {

/// What is known in this process; there is one command, and it runs its callbacks one by one.
struct Client {
  GivenOptions given;
  std::vector<std::string> words;
  std::size_t component = 0;  ///< where its options begin in `words`: at "sbatch", or at ":"
  bool first_component = true;
  std::optional<std::string> first_elastic;  ///< --elastic of the first component
};

Client& client() {
  static Client instance;
  return instance;
}

std::string_view command() { return program_invocation_short_name; }

bool in_job() { return getenv("SLURM_JOB_ID") != nullptr; }

/// Whether the command makes a job, not a step of one that there is.
bool makes_job(const CommandLine& options, bool allocator) {
  return allocator || (!in_job() && !options.job());
}

/// The options of the component that Slurm has just read; `optind` is where it stopped.
CommandLine component_options() {
  const Client& c = client();
  if (c.component >= c.words.size()) return {};
  return CommandLine(std::span(c.words).subspan(c.component + 1),
                     static_cast<std::size_t>(std::max(1, optind)) - 1);
}

/// Goes on to the next component, if there is one.
void next_component() {
  Client& c = client();
  c.first_component = false;
  const std::size_t end =
      std::min(c.component + static_cast<std::size_t>(std::max(1, optind)), c.words.size());
  const auto from = c.words.begin() + static_cast<std::ptrdiff_t>(end);
  const auto colon = command() == "sbatch" ? from : std::find(from, c.words.end(), ":");
  if (colon != c.words.end() && *colon == ":")
    c.component = static_cast<std::size_t>(colon - c.words.begin());
}

bool is_heterogeneous() {
  const Client& c = client();
  return !c.first_component || c.component != 0 ||
         std::find(c.words.begin(), c.words.end(), ":") != c.words.end();
}

/// Ends the command as it does itself when an option is wrong.
[[noreturn]] void refuse(const std::string& message, int code = 0) {
  slurm_error("bellows: %s", message.c_str());
  const char* const wanted = getenv("SLURM_EXIT_ERROR");
  if (code == 0 && wanted != nullptr) code = std::atoi(wanted);
  std::exit(code == 0 ? 1 : code);
}

std::optional<std::string> partitions(const CommandLine& options) {
  if (options.partition()) return options.partition();
  const char* variable = "SLURM_PARTITION";
  if (command() == "sbatch") variable = "SBATCH_PARTITION";
  if (command() == "salloc") variable = "SALLOC_PARTITION";
  const char* const named = getenv(variable);
  return named == nullptr ? std::nullopt : std::optional<std::string>(named);
}

/// Whether --no-kill is in force, as far as can be seen here.
bool is_no_kill(const CommandLine& options) {
  const auto off = [](const std::string& value) { return value == "off" || value == "no"; };
  if (const auto value = options.no_kill()) return !off(*value);
  std::string variable = "SLURM_NO_KILL";
  if (command() == "sbatch") variable = "SBATCH_NO_KILL";
  if (command() == "salloc") variable = "SALLOC_NO_KILL";
  const char* const set = getenv(variable.c_str());
  return set != nullptr && !off(set);
}

void hand_to_job(const Arguments& arguments) {
  const GivenOptions& given = client().given;
  for (const Option& option : option_table())
    if (option.variable != nullptr && given[option.id])
      setenv(option.variable, given[option.id]->c_str(), 1);
  if (!given[OptionId::elastic]) return;
  setenv(option(OptionId::mode).variable, arguments.mode.c_str(), 0);
  if (arguments.grace)
    setenv(option(OptionId::grace).variable, std::to_string(*arguments.grace).c_str(), 0);
}

void check_components() {
  Client& c = client();
  const auto& elastic = c.given[OptionId::elastic];
  if (c.first_component) {
    c.first_elastic = elastic;
  } else if (elastic != c.first_elastic) {
    throw ValueError(
        "--elastic is for the heterogeneous job as a whole: give it once, among the "
        "options of the first component");
  }
}

/// The path of this plugin.
std::string plugin_path() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&plugin_path), &info) != 0 && info.dli_fname != nullptr
             ? info.dli_fname
             : "";
}

/// The number of the job that srun is given, or runs in.
std::uint32_t named_job(const CommandLine& options) {
  std::optional<std::string> job = options.job();
  if (!job) {
    std::string variable = "SLURM_JOB_ID";
    // The components of a heterogeneous job are jobs of their own.
    if (const auto group = options.het_group()) variable += "_HET_GROUP_" + *group;
    const char* const value = getenv(variable.c_str());
    if (value == nullptr)
      throw ValueError(
          "--elastic-resize: name one component of the heterogeneous job, by "
          "--het-group=N within the job or else by --jobid");
    job = value;
  }
  try {
    return static_cast<std::uint32_t>(parse_number(*job, 1, std::numeric_limits<int>::max()));
  } catch (const ValueError&) {
    throw ValueError("--elastic-resize: job " + printable(*job) + ": use the job's number alone");
  }
}

ResizeRequest resize_request(const CommandLine& options, const Arguments& arguments) {
  const GivenOptions& given = client().given;
  ResizeRequest request;
  request.program = arguments.bellows.empty() ? bellows_beside(plugin_path()) : arguments.bellows;
  request.job = named_job(options);
  request.nodes = *given[OptionId::resize];
  if (given[OptionId::wait]) request.wait = std::stoi(*given[OptionId::wait]);
  return request;
}

/// Has it carried out; ends srun if it is not.
void resize(const ResizeRequest& request) {
  const ResizeOutcome outcome = run_resize(request);
  if (!outcome.problem.empty()) refuse("--elastic-resize: " + outcome.problem);
  if (outcome.code != 0)
    refuse("--elastic-resize=" + request.nodes + " was not granted (exit code " +
               std::to_string(outcome.code) + "); the step does not start",
           outcome.code);
}

void check_component(const CommandLine& options, const Arguments& arguments, bool allocator) {
  const GivenOptions& given = client().given;
  Submission submission;
  submission.makes_job = makes_job(options, allocator);
  if (submission.makes_job) check_components();
  if (!given.any_of_job() && !given[OptionId::resize] && !given[OptionId::wait]) return;
  submission.given_here = submission.makes_job || options.describes_elastic_job();
  if (!is_heterogeneous()) submission.nodes = options.nodes();
  submission.partitions = partitions(options);
  check_submission(given, submission, arguments);
  if (submission.makes_job && given[OptionId::elastic] && !is_no_kill(options))
    slurm_info("bellows: without --no-kill this job ends when it loses a node");
  if (given[OptionId::resize]) {
    if (client().first_component) resize(resize_request(options, arguments));
  } else {
    hand_to_job(arguments);
  }
}

}  // namespace

void client_init(bool allocator) {
  Client& c = client();
  c.words = own_command_line();
  if (allocator && in_job()) forget_surrounding_job();
  if (c.words.empty()) return;
  const CommandLine options{std::span<const std::string>(c.words).subspan(1)};
  const bool by_variable = getenv(inherited_variable(option(OptionId::elastic)).c_str()) != nullptr;
  if (makes_job(options, allocator) && (by_variable || options.describes_elastic_job()))
    set_no_kill(command());
}

void client_option(const Option& option, const char* value, bool allocator) {
  if (allocator && option.variable == nullptr)
    throw ValueError("--" + std::string(option.name) +
                     " is an option of srun: srun --jobid=JOB "
                     "--elastic-resize=N|+N|-N|NODELIST true");
  client().given.set(option.id, parse_option(option, value));
  // In a line of the script it comes before sbatch reads its environment.
  if (allocator && option.id == OptionId::elastic) set_no_kill(command());
}

void client_check(const Arguments& arguments, bool allocator) {
  const CommandLine options = component_options();
  try {
    check_component(options, arguments, allocator);
  } catch (const ValueError& error) {
    refuse(error.what());
  }
  next_component();
}

}  // namespace bellows::spank
