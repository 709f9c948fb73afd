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

#include "protocol/elastic_values.h"

namespace bellows::protocol {

/// A variable is wrong; `what()` names it and the right form.
class BadSetting : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ElasticSettings {
  Bounds nodes;                               // BELLOWS_ELASTIC=MIN-MAX[:STEP] or N
  ElasticMode mode = ElasticMode::manual;     // BELLOWS_ELASTIC_MODE
  std::string policy_arguments;               // BELLOWS_ELASTIC_POLICY_ARGS=K=V[,K=V…]
  std::optional<std::chrono::seconds> grace;  // BELLOWS_ELASTIC_GRACE: for ranks to leave
  std::vector<CompanionPlace> companions;     // BELLOWS_ELASTIC_HET=K=V[,K=V…][;…]
};

/// From this process's environment; nothing when BELLOWS_ELASTIC is not set. Throws BadSetting.
std::optional<ElasticSettings> elastic_settings();

}  // namespace bellows::protocol
