// SPDX-License-Identifier: Apache-2.0
// bellows-bench: how a program's speed grows with the number of ranks. See bellows-bench(1).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "config.h"
#include "trainer/bench/job.h"
#include "trainer/bench/measure.h"
#include "trainer/bench/options.h"
#include "trainer/tool.h"

namespace bellows::bench {
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

void say(const std::string& text) {
  fmt::print(stderr, "bellows-bench: {}\n", text);
  std::fflush(stderr);
}

Words operator+(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// What the training has to do so that it can be measured, without an end of its own.
Words trainer_options(const Options& options, const std::string& metrics, int times) {
  Words words{"--metrics", metrics, "--log-every", "1"};
  if (option_of(options.command, "evaluate-every").empty())
    words = words + Words{"--evaluate-every", "0"};
  bool limited = false;
  for (const char* limit : {"passes", "epochs", "steps", "train-seconds"})
    limited = limited || !option_of(options.command, limit).empty();
  if (!limited) words = words + Words{"--passes", "1000000000"};
  if (times > 1) {
    const long batch = std::stol(option_of(options.command, "batch"));
    words = words + Words{"--batch", std::to_string(batch * times)};
  }
  return words;
}

/// The command without an option that is given once more behind it.
Words without(const Words& command, const std::string& name) {
  Words rest;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i] == "--" + name)
      ++i;
    else if (!command[i].starts_with("--" + name + "="))
      rest.push_back(command[i]);
  }
  return rest;
}

Words launch(const Options& options, const std::string& folder, const Words& how, int times) {
  Words words = Words{sibling("bellows-run")} + how + options.launch +
                Words{"--events", folder + "/events.jsonl"};
  if (!options.is_trainer()) return words + options.command;
  return words + (times > 1 ? without(options.command, "batch") : options.command) +
         trainer_options(options, folder + "/metrics.jsonl", times);
}

std::string new_folder(const Options& options, const std::string& name) {
  const fs::path folder = fs::path(options.folder) / name;
  fs::create_directory(folder);
  return folder.string();
}

Job::Clock::time_point deadline(const Options& options) {
  return Job::Clock::now() + std::chrono::duration_cast<Job::Clock::duration>(
                                 std::chrono::duration<double>(options.limit));
}

/// One job that goes from size to size.
void measure_elastic(const Options& options, const std::string& folder) {
  const auto [least, most] = std::ranges::minmax(options.ranks);
  Job job(launch(options, folder,
                 {"--elastic", fmt::format("{}-{}", least, most), "-n",
                  std::to_string(options.ranks.front())},
                 1),
          folder + "/output");
  const auto measure = make_measure(options, folder + "/metrics.jsonl");
  for (std::size_t i = 0; i < options.ranks.size(); ++i) {
    const int ranks = options.ranks[i];
    say(fmt::format("{}: {} rank{}", folder, ranks, ranks == 1 ? "" : "s"));
    const auto until = deadline(options);
    if (i > 0) job.resize(ranks, until);
    measure->size(job, ranks, until);
  }
  job.stop();
}

/// bellows-train's batch is that of the whole job: each size is a job of its own.
void measure_weak_training(const Options& options, int round, Words& runs) {
  for (const int ranks : options.ranks) {
    const std::string folder = new_folder(options, fmt::format("run-{}-ranks-{}", round, ranks));
    runs.push_back(folder);
    say(fmt::format("{}: {} rank{}", folder, ranks, ranks == 1 ? "" : "s"));
    Job job(launch(options, folder, {"-n", std::to_string(ranks)}, ranks), folder + "/output");
    make_measure(options, folder + "/metrics.jsonl")->size(job, ranks, deadline(options));
    job.stop();
  }
}

void report(const Options& options, const Words& runs) {
  const int code = run_program(
      Words{sibling("bellows-report"), "--together", "--warm-up", std::to_string(options.warm_up),
            "--title", "Scaling of " + fs::path(options.command[0]).filename().string(), "--html",
            options.folder + "/report.html"} +
      runs);
  if (code != 0) throw BenchError("no report: bellows-report ended with " + std::to_string(code));
}

void measure_all(const Options& options, Words& runs) {
  for (int round = 1; round <= options.repeat; ++round) {
    if (options.weak && options.is_trainer()) {
      measure_weak_training(options, round, runs);
    } else {
      runs.push_back(new_folder(options, fmt::format("run-{}", round)));
      measure_elastic(options, runs.back());
    }
  }
}

/// What is left of a measurement that failed is kept: it says why, and may be worth a report.
std::string what_is_left(const Options& options, const Words& runs) {
  const std::string folder = fs::absolute(options.folder).string();
  std::string text = "what there is of it stays in " + folder;
  if (std::ranges::any_of(runs, [](const std::string& run) {
        std::error_code failed;
        return fs::file_size(run + "/metrics.jsonl", failed) > 0 && !failed;
      }))
    text += fmt::format(" (bellows report --together {}/run-*)", folder);
  return text + "; remove it, or give another --output, before you try again";
}

int measure(const Options& options) {
  std::error_code failed;
  if (fs::exists(options.folder, failed))
    throw UsageError("--output=" + options.folder + ": is there already; name a new folder");
  if (!fs::create_directories(options.folder, failed))
    throw UsageError("--output=" + options.folder + ": " + failed.message());
  Words runs;
  try {
    measure_all(options, runs);
    report(options, runs);
  } catch (const std::exception& e) {
    say(e.what());
    throw BenchError(what_is_left(options, runs));
  }
  return trainer::kSuccess;
}

int run(const Words& arguments) {
  catch_stop_signals();
  const Options options = parse_options(arguments);
  if (!options.help && !options.version) return measure(options);
  fmt::print("{}", options.help ? help_text() : "bellows-bench " BELLOWS_VERSION "\n");
  return trainer::kSuccess;
}

}  // namespace

}  // namespace bellows::bench

int main(int argc, char** argv) {
  return bellows::trainer::run_tool("bellows-bench",
                                    [&] { return bellows::bench::run({argv + 1, argv + argc}); });
}
