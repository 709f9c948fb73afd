// SPDX-License-Identifier: Apache-2.0
#include "scheduler/live/live_jobs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>

#include "scheduler/command/control_client.h"
#include "scheduler/command/jobs.h"

namespace bellows::scheduler {
namespace json = boost::json;
using protocol::Message;

namespace {

constexpr double kShownAfterEnd = 60;  // seconds
constexpr const char* kNoAnswer = "no answer";

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool exists(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

LiveJob silent(const std::string& name, const std::string& state, const std::string& problem) {
  LiveJob job;
  job.job = name;
  job.source = "bellows-run";
  job.state = state;
  job.problem = problem;
  return job;
}

LiveJob ask_one(const std::string& name, const std::string& socket,
                std::chrono::milliseconds limit) {
  try {
    const Message answer = ControlClient(socket).ask(Message("status"), limit);
    if (answer.type() != "status") return silent(name, kNoAnswer, "it gave an answer that is none");
    LiveJob job = live_job_from_status(answer.head);
    if (job.job.empty()) job.job = name;
    return job;
  } catch (const Overdue& overdue) {
    return silent(name, kNoAnswer, overdue.what());
  } catch (const std::exception& none) {
    // A socket without a listener is that of a launcher that was killed; another may take over.
    return silent(name, exists(socket) ? "gone" : "ended", none.what());
  }
}

LiveJob ask(const std::string& name, const std::string& socket, std::chrono::milliseconds limit) {
  LiveJob job = ask_one(name, socket, limit);
  job.key = socket;
  return job;
}

bool answers(const LiveJob& job) { return job.problem.empty(); }

}  // namespace

std::vector<LiveJobs::Target> LiveJobs::targets(LiveRound& round) const {
  std::vector<Target> targets;
  targets.reserve(settings_.sockets.size());
  for (const std::string& socket : settings_.sockets) {
    targets.push_back({std::filesystem::path(socket).stem().string(), socket});
  }
  try {
    if (!settings_.jobs.empty() || !settings_.sockets.empty()) {
      for (const std::string& name : settings_.jobs) {
        try {
          const Job job = find_job(name);
          targets.push_back({job.name, job.socket});
        } catch (const NoJob&) {
          continue;  // bellowsd may know it
        }
      }
    } else {
      for (const Job& job : running_jobs()) targets.push_back({job.name, job.socket});
    }
  } catch (const std::exception& failed) {
    round.notes.emplace_back(failed.what());
  }
  // One whose launcher has been killed has a socket, but nobody listens.
  for (const auto& [key, seen] : seen_) {
    const auto same = [&, &socket = key](const Target& target) { return target.socket == socket; };
    if (seen.job.source == "bellows-run" && std::ranges::none_of(targets, same)) {
      targets.push_back({seen.job.job, key});
    }
  }
  return targets;
}

void LiveJobs::add_from_daemon(LiveRound& round, std::vector<std::string>& unfound) const {
  const Message answer = settings_.ask_daemon(settings_.limit);
  if (answer.type() != "jobs") throw NoAnswer("bellowsd gave an answer that is none");
  for (const json::value& value : answer.array("jobs")) {
    if (!value.is_object()) continue;
    const json::object& entry = value.get_object();
    LiveJob job = live_job_from_daemon(entry);
    job.key = job.job;
    const json::value* user = entry.if_contains("user");
    const bool own = user != nullptr && user->is_number() && user->to_number<double>() == geteuid();
    const bool named = std::erase(unfound, job.job) > 0;
    // A bellows-run that can be asked itself knows better.
    const bool known = std::ranges::any_of(
        round.jobs, [&](const LiveJob& other) { return other.slurm_job() == job.job; });
    const bool wanted = settings_.jobs.empty() ? own || settings_.everybody : named;
    if (wanted && !known) round.jobs.push_back(std::move(job));
  }
}

LiveRound LiveJobs::look() {
  LiveRound round;
  round.time = unix_now();
  const std::vector<Target> asked = targets(round);
  std::vector<std::future<LiveJob>> answers_to_come;
  answers_to_come.reserve(asked.size());
  for (const Target& target : asked) {
    answers_to_come.push_back(std::async(std::launch::async, [target, limit = settings_.limit] {
      return ask(target.name, target.socket, limit);
    }));
  }
  std::vector<std::string> unfound = settings_.jobs;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    LiveJob job = answers_to_come[i].get();
    std::erase_if(unfound, [&](const std::string& name) {
      return name == asked[i].name || name == job.slurm_job();
    });
    round.missing = round.missing || !answers(job);
    round.jobs.push_back(std::move(job));
  }
  if (settings_.ask_daemon && (settings_.sockets.empty() || !settings_.jobs.empty())) {
    try {
      add_from_daemon(round, unfound);
    } catch (const std::exception& failed) {
      round.notes.emplace_back(failed.what());
    }
  }
  for (const std::string& name : unfound) {
    round.missing = true;
    round.notes.push_back("there is no job " + name + " of bellows-run's here" +
                          (settings_.ask_daemon ? ", and bellowsd does not know it" : ""));
  }
  remember(round);
  std::ranges::stable_sort(round.jobs, {}, &LiveJob::job);
  return round;
}

// A job that answers no more is shown with what it said last, for a while.
void LiveJobs::remember(LiveRound& round) {
  for (LiveJob& job : round.jobs) {
    if (answers(job)) {
      seen_[job.key] = {job, round.time};
      continue;
    }
    const auto before = seen_.find(job.key);
    if (before == seen_.end()) continue;
    const std::string state = job.state, problem = job.problem;
    job = before->second.job;
    job.state = state;
    job.problem = problem;
    if (state == kNoAnswer) before->second.time = round.time;  // it may come back
  }
  const bool daemon_silent = std::ranges::any_of(
      round.notes, [](const std::string& note) { return note.starts_with("bellowsd"); });
  const auto over = [&](const Seen& seen) { return round.time - seen.time > kShownAfterEnd; };
  for (auto& [key, seen] : seen_) {
    const auto same = [&, &old = key](const LiveJob& job) {
      return job.key == old || job.slurm_job() == old;
    };
    if (std::ranges::any_of(round.jobs, same)) continue;
    LiveJob job = seen.job;
    job.state = daemon_silent ? kNoAnswer : "ended";
    job.problem = daemon_silent ? "bellowsd does not answer" : "bellowsd knows it no more";
    if (daemon_silent) seen.time = round.time;
    round.jobs.push_back(std::move(job));
  }
  std::erase_if(round.jobs, [&](const LiveJob& job) {
    const auto seen = seen_.find(job.key);
    return seen != seen_.end() && over(seen->second);
  });
  std::erase_if(seen_, [&](const auto& entry) { return over(entry.second); });
}

}  // namespace bellows::scheduler
