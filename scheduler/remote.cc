// SPDX-License-Identifier: Apache-2.0
#include "scheduler/remote.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

extern char** environ;

namespace bellows::scheduler {
namespace {

constexpr const char* kThere = "BELLOWS_REMOTE";  // set in what is started by this

bool is_number(const std::string& text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= 10 && std::ranges::all_of(text, digit);
}

bool is_host(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  };
  return !text.empty() && text[0] != '-' && std::ranges::all_of(text, plain);
}

bool is_here(const std::string& host) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::string here = name.data();
  return host == here || host.substr(0, host.find('.')) == here.substr(0, here.find('.'));
}

}  // namespace

std::optional<std::string> slurm_job_meant(const std::optional<std::string>& name) {
  const char* own = std::getenv("SLURM_JOB_ID");
  std::string job = name ? *name : own != nullptr ? own : "";
  job = job.substr(0, job.find('.'));
  return is_number(job) ? std::optional<std::string>(job) : std::nullopt;
}

bool came_by_step() { return std::getenv(kThere) != nullptr; }

std::optional<std::string> node_to_go_to(const std::string& slurm_job) {
  if (came_by_step() || !is_number(slurm_job)) return std::nullopt;
  const std::string command = "exec squeue -h -j " + slurm_job + " -o %B 2>/dev/null </dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"), &pclose);
  std::array<char, 512> line{};
  if (!pipe || fgets(line.data(), line.size(), pipe.get()) == nullptr) return std::nullopt;
  std::string host = line.data();
  while (!host.empty() && std::isspace(static_cast<unsigned char>(host.back())) != 0) {
    host.pop_back();
  }
  while (fgets(line.data(), line.size(), pipe.get()) != nullptr) continue;  // other components
  if (!is_host(host) || is_here(host)) return std::nullopt;
  return host;
}

std::string go_to(const std::string& slurm_job, const std::string& node,
                  const std::vector<std::string>& arguments) {
  std::error_code failed;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", failed);
  // What the present job says of itself would be taken for options.
  std::vector<std::string> unwanted;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const bool slurm = text.starts_with("SLURM_") && !text.starts_with("SLURM_CONF=");
    if (slurm || text.starts_with("BELLOWS_ELASTIC"))
      unwanted.push_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : unwanted) unsetenv(name.c_str());
  setenv(kThere, "1", 1);
  std::vector<std::string> words = {"srun",
                                    "--jobid=" + slurm_job,
                                    "--overlap",
                                    "--nodes=1",
                                    "--ntasks=1",
                                    "--nodelist=" + node,
                                    "--mpi=none",
                                    "--quiet",
                                    "--input=none",
                                    "--export=ALL",
                                    failed ? "bellows" : own.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp("srun", pointers.data());
  return std::string("cannot start srun: ") + std::strerror(errno);
}

}  // namespace bellows::scheduler
