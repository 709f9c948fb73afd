// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/remote.h"

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
#include <sstream>

#include "scheduler/cluster/node_list.h"

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

std::optional<ScriptNode> node_to_go_to(const std::string& slurm_job) {
  if (came_by_step() || !is_number(slurm_job)) return std::nullopt;
  const std::string command =
      "exec squeue -h -j " + slurm_job + " -o '%B %N' 2>/dev/null </dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"), &pclose);
  if (!pipe) return std::nullopt;
  std::string said;
  std::array<char, 4096> part{};
  while (fgets(part.data(), part.size(), pipe.get()) != nullptr) said += part.data();
  std::istringstream first(said.substr(0, said.find('\n')));  // others are of other components
  ScriptNode node;
  std::string all;
  if (!(first >> node.name >> all) || !is_host(node.name) || is_here(node.name)) {
    return std::nullopt;
  }
  try {
    node.others = parse_node_list(all);
    std::erase(node.others, node.name);
  } catch (const BadNodeList&) {
    node.others.clear();
  }
  return node;
}

std::string go_to(const std::string& slurm_job, const ScriptNode& node,
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
  std::vector<std::string> words = {"srun",         "--jobid=" + slurm_job,
                                    "--overlap",    "--nodes=1",
                                    "--ntasks=1",   "--nodelist=" + node.name,
                                    "--mpi=none",   "--quiet",
                                    "--input=none", "--export=ALL"};
  // Slurm takes --nodelist for no wish of the step's where it is the text of the job's own.
  if (!node.others.empty()) words.push_back("--exclude=" + join(node.others));
  words.push_back(failed ? "bellows" : own.string());
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp("srun", pointers.data());
  return std::string("cannot start srun: ") + std::strerror(errno);
}

}  // namespace bellows::scheduler
