// SPDX-License-Identifier: Apache-2.0
// What the parts of the broker share: the two sides that they talk to, and what is still owed to
// them.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/elastic_settings.h"
#include "scheduler/broker/guidance.h"
#include "scheduler/broker/holdings.h"
#include "scheduler/broker/run_client.h"
#include "scheduler/cluster/cluster.h"
#include "scheduler/policy/policy.h"

namespace bellows::scheduler {

struct BrokerSettings {
  JobId base = 0;
  Bounds bounds;  // of nodes
  protocol::ElasticMode mode = protocol::ElasticMode::manual;
  EconomicSettings economic;
  std::vector<protocol::CompanionPlace> companions;
  Seconds leave{30};  // for ranks to leave a node that is given back
  Seconds poll{5};    // between two looks at the cluster
  Seconds second{3};  // without a grant, after which the next place is asked as well
  Seconds spare{10};  // beyond --start-timeout, for which a node may be without ranks
  std::chrono::seconds brick_poll{20};
  std::chrono::seconds suspended{180};  // for which a brick outlasts the suspension of its base
};

/// What was asked for will not happen; `what()` says why.
class Refused : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Desk {
  Cluster& cluster;
  RunClient& run;
  Pace& pace;
  const BrokerSettings& settings;
  std::function<void(const std::string&)> say;  // to the user, by bellows-run's stderr
  Guidance& guidance;

  // The requests under way, which care must let alone.
  std::set<JobId> offers;
  std::set<std::string> arriving;
  // Owed to Slurm, which could not be reached.
  std::set<JobId> to_cancel;
  std::set<std::string> to_give_back;
  // And when it was done: a controller that crashes forgets the newest changes.
  std::map<std::string, Time> given_back;
  // slurmctld has refused to merge an expansion into this job: a property of the job's.
  bool no_merging = false;

  Holdings holdings() const { return find_holdings(cluster.jobs(), settings.base); }
  Time now() const { return pace.now(); }
};

/// Calls `what` until the cluster can be reached. Throws ClusterError when the deadline has passed
/// or the process is to end, and what else `what` throws.
template <class What>
auto insist(Desk& desk, Time deadline, What what) {
  while (true) {
    try {
      return what();
    } catch (const ClusterError& failed) {
      const bool again = failed.kind() == ClusterError::Kind::unreachable;
      if (!again || desk.now() >= deadline || !desk.pace.wait(Seconds(1))) throw;
    }
  }
}

/// Puts it into the job's events, if bellows-run can be reached.
void note(Desk& desk, const protocol::JobEvent& event);

/// Now, or later when Slurm cannot be reached.
void cancel(Desk& desk, JobId job);
/// The same for nodes on which nothing runs any more.
void give_back(Desk& desk, const std::vector<std::string>& nodes);
/// Tries again what is owed.
void settle_debts(Desk& desk);

}  // namespace bellows::scheduler
