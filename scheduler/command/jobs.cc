// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/jobs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "protocol/control_socket.h"

namespace bellows::scheduler {
namespace {

namespace fs = std::filesystem;

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string listed(const std::vector<Job>& jobs) {
  std::string text;
  for (const Job& job : jobs) text += (text.empty() ? "" : ", ") + job.name;
  return text;
}

std::string none_but(const std::vector<Job>& jobs) {
  return jobs.empty() ? "there is no other" : "there is " + listed(jobs);
}

// What cannot be reached is no job, whatever it is, and hides none of the others.
bool listens(const fs::path& path) {
  try {
    return protocol::is_listening(path.string());
  } catch (const std::runtime_error&) {
    return false;
  }
}

/// Elastic jobs whose bellows-run has died, and left what another needs to take them over.
std::vector<std::string> left_jobs() {
  std::vector<std::string> names;
  std::error_code failed;
  fs::directory_iterator entries(protocol::control_folder(), failed);
  for (; !failed && entries != fs::directory_iterator(); entries.increment(failed)) {
    const fs::path& path = entries->path();
    const fs::path socket = fs::path(path).replace_extension(protocol::kControlSocketEnding);
    if (path.extension() != protocol::kJobFileEnding ||
        !protocol::is_job_name(path.stem().string()))
      continue;
    if (!listens(socket)) names.push_back(path.stem().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Of those that could be meant, or all.
std::string advice(const std::optional<std::string>& name) {
  std::string text;
  for (const std::string& left : left_jobs()) {
    if (name && left != *name && !left.starts_with(*name + ".")) continue;
    text += "; the bellows-run of " + left +
            " has died: if its ranks still run, bellows-run --reattach " + left +
            " takes them over";
  }
  return text;
}

Job find_named(const std::string& name, const std::vector<Job>& jobs) {
  std::vector<Job> of_slurm_job;
  for (const Job& job : jobs) {
    if (job.name == name) return job;
    if (job.name.starts_with(name + ".")) of_slurm_job.push_back(job);
  }
  if (of_slurm_job.size() == 1) return of_slurm_job[0];
  if (of_slurm_job.empty()) {
    throw NoJob("no bellows-run of yours runs job " + name + " on " + host_name() + " (" +
                none_but(jobs) + "); looked in " + protocol::control_folder() + advice(name));
  }
  throw ManyJobs("job " + name + " has several launchers: choose one with --job (" +
                 listed(of_slurm_job) + ")");
}

}  // namespace

std::vector<Job> running_jobs() {
  const std::string folder = protocol::control_folder();
  struct stat status{};
  if (lstat(folder.c_str(), &status) != 0 && errno == ENOENT) return {};
  protocol::check_control_folder(folder);
  std::vector<Job> jobs;
  std::error_code failed;
  fs::directory_iterator entries(folder, failed);
  for (; !failed && entries != fs::directory_iterator(); entries.increment(failed)) {
    const fs::path& path = entries->path();
    if (path.extension() != protocol::kControlSocketEnding) continue;
    const std::string name = path.stem().string();
    std::error_code unseen;
    if (!protocol::is_job_name(name) || !entries->is_socket(unseen)) continue;
    if (listens(path)) jobs.push_back({name, path.string()});
  }
  if (failed) throw std::runtime_error("cannot list " + folder + ": " + failed.message());
  std::ranges::sort(jobs, {}, &Job::name);
  return jobs;
}

Job find_job(const std::optional<std::string>& name) {
  const std::vector<Job> jobs = running_jobs();
  if (name) return find_named(*name, jobs);
  const char* slurm = std::getenv("SLURM_JOB_ID");
  if (slurm != nullptr && *slurm != '\0') return find_named(slurm, jobs);
  if (jobs.empty()) {
    throw NoJob("no bellows-run of yours was started on " + host_name() + "; looked in " +
                protocol::control_folder() + advice(std::nullopt));
  }
  if (jobs.size() > 1)
    throw ManyJobs("there are several jobs: choose one with --job (" + listed(jobs) + ")");
  return jobs[0];
}

}  // namespace bellows::scheduler
