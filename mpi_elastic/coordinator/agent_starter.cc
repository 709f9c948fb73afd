// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/agent_starter.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace bellows::elastic {
namespace {

// Where the text of a step's --nodelist is that of the job's own, Slurm takes it for no wish of the
// step's (stepmgr.c, _pick_step_nodes): after `sbatch -w n1 -N2` a step for n1 can start on n2.
// Named here are the nodes that it must not take. With more the agent finds out (check_place).
constexpr std::size_t kMostExcluded = 128;

}  // namespace

AgentStarter::AgentStarter(boost::asio::io_context& io, std::string agent, bool slurm, OnEnd on_end)
    : io_(io), agent_(std::move(agent)), slurm_(slurm), on_end_(std::move(on_end)) {}

AgentStarter::~AgentStarter() {
  kill_all();
  for (auto& [node, child] : processes_) {
    if (child->ours) waitpid(child->pid, nullptr, 0);
  }
}

// Explicit values for everything that a site's defaults (SLURM_* variables, slurm.conf) could turn
// against us: the step spans one node, shares it with other steps, gets all of it, has no PMI of
// its own, and its end is nobody else's.
std::vector<std::string> AgentStarter::command(const AgentSettings& settings,
                                               const std::string& job,
                                               const std::vector<std::string>& others) const {
  if (!slurm_) return {agent_};
  std::vector<std::string> words = {"srun",         "--nodes=1",
                                    "--ntasks=1",   "--nodelist=" + settings.node,
                                    "--overlap",    "--external-launcher",
                                    "--mpi=none",   "--kill-on-bad-exit=0",
                                    "--no-kill",    "--export=ALL",
                                    "--input=none", "--unbuffered",
                                    "--quiet",      "--job-name=bellows-agent"};
  // "4711", or "4711+1": a component of a heterogeneous job, which srun knows by its first one.
  const std::size_t plus = job.find('+');
  if (!job.empty()) words.push_back("--jobid=" + job.substr(0, plus));
  if (plus != std::string::npos) words.push_back("--het-group=" + job.substr(plus + 1));
  if (!others.empty() && others.size() <= kMostExcluded) {
    words.push_back(fmt::format("--exclude={}", fmt::join(others, ",")));
  }
  words.push_back(agent_);
  return words;
}

void AgentStarter::start(const AgentSettings& settings, const std::string& job,
                         const std::vector<std::string>& others) {
  SpawnRequest request;
  request.arguments = command(settings, job, others);
  request.environment = own_environment();
  // They would be taken for options of our own steps.
  for (const char* name :
       {"SLURM_NTASKS=", "SLURM_NPROCS=", "SLURM_NTASKS_PER_NODE=", "SLURM_DISTRIBUTION=",
        "SLURM_CPU_BIND", "SLURM_HINT=", "SLURM_LABELIO=", "SLURM_STDOUTMODE=", "SLURM_STDERRMODE=",
        "SLURM_STDINMODE=", "SLURM_THREADS_PER_CORE=", "SLURM_EXCLUSIVE=", "SLURM_EXACT=",
        // (These are of the job as it began: srun asks slurmctld for its present nodes instead.)
        "SLURM_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (slurm_) remove_variables(request.environment, name);
  }
  // They tell of another allocation than the one that is meant.
  for (const char* name :
       {"SLURM_JOB", "SLURM_HET_", "SLURM_NNODES=", "SLURM_NODELIST=", "SLURM_TASKS_PER_NODE=",
        "SLURM_MEM_PER_", "SLURM_TRES_", "SLURM_GPUS", "SLURM_CPUS_"}) {
    if (slurm_ && !job.empty()) remove_variables(request.environment, name);
  }
  settings.add_to(request.environment);
  request.null_input = true;
  Process process = spawn(request);
  auto child = std::make_unique<Child>(Child{process.pid, {io_, process.pidfd.release()}, true});
  processes_[settings.node] = std::move(child);
  wait_for(settings.node);
}

bool AgentStarter::adopt(const std::string& node, pid_t pid, std::int64_t started) {
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  // (Only now is it certain that the id stays with what it is looked up for.)
  if (!pidfd.valid() || started == 0 || process_started(pid) != started) return false;
  fcntl(pidfd.get(), F_SETFD, FD_CLOEXEC);
  processes_[node] = std::make_unique<Child>(Child{pid, {io_, pidfd.release()}, false});
  wait_for(node);
  return true;
}

pid_t AgentStarter::pid_of(const std::string& node) const {
  const auto found = processes_.find(node);
  return found == processes_.end() ? 0 : found->second->pid;
}

void AgentStarter::wait_for(const std::string& node) {
  Child& child = *processes_.at(node);
  child.exit.async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      [this, node](const boost::system::error_code& failed) {
        if (failed) return;
        const auto ended = processes_.find(node);
        const std::string name = slurm_ ? "srun" : "bellows-agent";
        if (!ended->second->ours) {
          pollfd state{ended->second->exit.native_handle(), POLLIN, 0};
          if (poll(&state, 1, 0) == 0) {
            wait_for(node);
            return;
          }
          processes_.erase(ended);
          on_end_(node, name + " has ended");
          return;
        }
        int status = 0;
        if (waitpid(ended->second->pid, &status, WNOHANG) != ended->second->pid) {
          wait_for(node);
          return;
        }
        processes_.erase(ended);
        on_end_(node, WIFSIGNALED(status)
                          ? name + " was killed by " + signal_text(WTERMSIG(status))
                          : name + " ended with exit code " + std::to_string(WEXITSTATUS(status)));
      });
}

std::vector<std::string> AgentStarter::nodes() const {
  std::vector<std::string> names;
  for (const auto& [node, child] : processes_) names.push_back(node);
  return names;
}

void AgentStarter::kill_one(const std::string& node) {
  const auto found = processes_.find(node);
  if (found != processes_.end()) kill(found->second->pid, SIGKILL);
}

void AgentStarter::kill_all_of(const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes) kill_one(node);
}

void AgentStarter::kill_all() {
  for (auto& [node, child] : processes_) kill(child->pid, SIGKILL);
}

}  // namespace bellows::elastic
