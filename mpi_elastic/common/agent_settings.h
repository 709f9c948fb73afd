// SPDX-License-Identifier: Apache-2.0
// What an agent is told when it is started. It travels in environment variables, never on a
// command line, since the secret is part of it.
#pragma once

#include <string>
#include <vector>

namespace bellows::elastic {

struct AgentSettings {
  std::string node;                    // BELLOWS_NODE: the name it reports under
  bool node_of_slurm = false;          // BELLOWS_NODE_OF_SLURM: which is that of a node of Slurm's
  std::vector<std::string> addresses;  // BELLOWS_COORDINATOR: HOST:PORT[,HOST:PORT…]
  std::string secret;                  // BELLOWS_SECRET
  std::string job;                     // BELLOWS_JOB: e.g. "4711" or "local-2301"
  double connect_seconds = 30;         // BELLOWS_CONNECT_SECONDS
  double rank_silence_seconds = 5;
  double silence_seconds = 10;  // BELLOWS_SILENCE_SECONDS: then the other side is lost
  double grace_seconds = 0;     // BELLOWS_LAUNCHER_GRACE_SECONDS: for a lost one to come back
  // BELLOWS_NOTICE=1: SIGTERM says that this node goes, not that the job ends. Slurm sends it to
  // every process of the step, so it is blocked in the ranks; what the launcher sends as SIGTERM is
  // SIGUSR1 to them.
  bool notice = false;

  /// Reads the variables. Throws std::runtime_error naming the one that is missing or wrong.
  static AgentSettings from_environment();
  /// Throws std::runtime_error when Slurm has started this agent on another node than it was to
  /// (agent_starter.cc says when it does).
  void check_place() const;
  /// Sets the variables in the environment of an agent.
  void add_to(std::vector<std::string>& environment) const;
  /// Removes them from an environment that ranks are to get.
  static void remove_from(std::vector<std::string>& environment);
};

}  // namespace bellows::elastic
