// SPDX-License-Identifier: Apache-2.0
// Starts one bellows-agent per node: by a Slurm step each, or as a local process.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mpi_elastic/common/agent_settings.h"
#include "mpi_elastic/common/process.h"

namespace bellows::elastic {

class AgentStarter {
 public:
  /// `how`: what the starter's process was ("srun ended with exit code 1").
  using OnEnd = std::function<void(const std::string& node, const std::string& how)>;

  /// `agent`: the program. `slurm`: by srun, in the allocation of this process.
  AgentStarter(boost::asio::io_context& io, std::string agent, bool slurm, OnEnd on_end);
  ~AgentStarter();  // kills what is left
  AgentStarter(const AgentStarter&) = delete;
  AgentStarter& operator=(const AgentStarter&) = delete;

  /// `job`: the Slurm job that has the node, "" for the one that this process is in. `others`:
  /// nodes on which Slurm must not start it. Throws SpawnError.
  void start(const AgentSettings& settings, const std::string& job,
             const std::vector<std::string>& others);
  /// Watches a process that another launcher has started. False when it has ended.
  bool adopt(const std::string& node, pid_t pid, std::int64_t started);
  /// Of the node's process; 0 when there is none.
  pid_t pid_of(const std::string& node) const;
  std::size_t running() const { return processes_.size(); }
  /// Of the processes that run.
  std::vector<std::string> nodes() const;
  /// Of a node that is lost: nothing is to be expected of it.
  void kill_one(const std::string& node);
  void kill_all();
  void kill_all_of(const std::vector<std::string>& nodes);

 private:
  struct Child {
    pid_t pid;
    boost::asio::posix::stream_descriptor exit;
    bool ours = true;  // else its exit status is not for us
  };
  std::vector<std::string> command(const AgentSettings& settings, const std::string& job,
                                   const std::vector<std::string>& others) const;
  void wait_for(const std::string& node);

  boost::asio::io_context& io_;
  std::string agent_;
  bool slurm_;
  OnEnd on_end_;
  std::map<std::string, std::unique_ptr<Child>> processes_;  // by node
};

}  // namespace bellows::elastic
