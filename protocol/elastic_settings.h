// SPDX-License-Identifier: Apache-2.0
// What a Slurm job was submitted with as an elastic job: the environment variables
// BELLOWS_ELASTIC*, which the Slurm plugin sets (or the user), and bellows-run and bellows-broker
// read.
#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace bellows::protocol {

/// A variable is wrong; `what()` names it and the right form.
class BadSetting : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class ElasticMode {
  manual,    // only requests change the size
  turbo,     // grows into idle nodes, and gives them back when a pending job could start
  economic,  // as turbo, but only while more nodes pay
};

/// Where nodes may come from that the job's own allocation cannot grow into.
struct CompanionPlace {
  std::string partition, qos, features, gres, account;  // "": as the job itself
  std::optional<int> most;                              // nodes
};

struct ElasticSettings {
  int least = 1, most = 1, step = 1;          // BELLOWS_ELASTIC=MIN-MAX[:STEP] or N: nodes
  ElasticMode mode = ElasticMode::manual;     // BELLOWS_ELASTIC_MODE
  std::string policy_arguments;               // BELLOWS_ELASTIC_POLICY_ARGS=K=V[,K=V…]
  std::optional<std::chrono::seconds> grace;  // BELLOWS_ELASTIC_GRACE: for ranks to leave
  std::vector<CompanionPlace> companions;     // BELLOWS_ELASTIC_HET=K=V[,K=V…][;…]
};

/// From this process's environment; nothing when BELLOWS_ELASTIC is not set. Throws BadSetting.
std::optional<ElasticSettings> elastic_settings();

/// The parts, each of which throws BadSetting.
void parse_elastic(const std::string& text, ElasticSettings& into);
ElasticMode parse_elastic_mode(const std::string& text);
std::vector<CompanionPlace> parse_companions(const std::string& text);

}  // namespace bellows::protocol
