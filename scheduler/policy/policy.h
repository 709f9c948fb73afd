// SPDX-License-Identifier: Apache-2.0
// How large an elastic job should be, decided from what can be seen: pure functions, without calls,
// clocks or memory of their own. A policy proposes; whoever asked checks the bounds again and acts.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/elastic_values.h"
#include "protocol/size_hints.h"
#include "scheduler/cluster/cluster.h"

namespace bellows::scheduler {

using protocol::Bounds;  // in nodes

/// The largest allowed size that is at most `wanted`, but at least `bounds.least`.
int allowed_size(const Bounds& bounds, int wanted);
/// "" or why a job may not have so many nodes.
std::string why_not_size(const Bounds& bounds, int nodes);

/// Idle nodes of one place: a growth has all of its nodes from one.
struct IdleNodes {
  std::vector<std::string> names;
  std::size_t most = 0;  // that the job may have of them
};

/// One elastic job and its surroundings.
struct Outlook {
  Bounds bounds;
  std::vector<std::string> held;   // its nodes, in the order in which they would be given back
  std::set<std::string> fixed;     // those of them that it must keep
  std::vector<IdleNodes> idle;     // into which it could grow now: its own partition's, then others
  std::vector<JobView> pending;    // jobs of others that wait for nodes only
  std::vector<NodeView> nodes;     // all
  std::optional<SizeHints> hints;  // what the job says of its size, if anything
};

/// Looks at a whole cluster with the eyes of one job. `own`: its allocations, the base first;
/// `fixed`: nodes that it must keep; `companions`: where it may have companion jobs. Nodes that
/// came last are given back first.
Outlook outlook(const Bounds& bounds, const std::vector<JobView>& own,
                const std::set<std::string>& fixed,
                const std::vector<protocol::CompanionPlace>& companions,
                const std::vector<JobView>& jobs, const std::vector<NodeView>& nodes);

/// The nodes on which a pending job could run if they were free.
std::set<std::string> nodes_for(const JobView& pending, const std::vector<NodeView>& nodes);
/// Whether it could have this node now.
bool has_room(const NodeView& node, const JobView& pending);
/// Jobs that wait for nodes only, the most important one first; without companions of `elastic`.
std::vector<JobView> queue_of(const std::vector<JobView>& jobs, const std::set<JobId>& elastic);
/// How many nodes it needs, of those it could have.
int nodes_needed(const JobView& pending, const std::vector<NodeView>& nodes);

struct Decision {
  int grow = 0;                        // by so many nodes
  std::size_t companion = 0;           // as in NodeRequest
  std::vector<std::string> give_back;  // or these
  std::string why;                     // for people; "" when nothing is to be done
  bool nothing() const { return grow == 0 && give_back.empty(); }
};

/// Nodes that jobs in the queue could start with, together with those that are idle: the fewest
/// that let the first of them start. Nothing when no job can be helped.
Decision yield_to_pending(const Outlook& outlook);

/// How fast the job was with so many nodes.
struct Speed {
  double samples_per_second = 0;
  Time measured;
};

/// As large as the bounds and the idle nodes allow, but for those idle nodes with which a pending
/// job will start, and no larger than the job gains from (worth.h); nodes are given back as soon as
/// a pending job could start with them. `speeds`: by number of nodes, as last measured.
Decision turbo(const Outlook& outlook, const std::map<int, Speed>& speeds = {});

struct EconomicSettings {
  /// Of a node that was added, relative to the mean of the others, below which it is not worth it:
  /// (s(n+k) - s(n)) / k over s(n) / n.
  double least_gain = kEconomicGain;
  std::chrono::seconds settle{30};   // how long a size must have lasted to be measured
  std::chrono::seconds retry{1800};  // after which a size that did not pay is tried again
};

/// As turbo, but only while the newest growth pays. A job with hints goes to the size that they
/// say pays, at once, and back to it, as long as no speeds that were measured say otherwise.
/// `since`: when the present size was reached; `speeds`: by number of nodes, as last measured.
Decision economic(const Outlook& outlook, const EconomicSettings& settings,
                  const std::map<int, Speed>& speeds, Time since, Time now);

/// "K=V,K=V" (BELLOWS_ELASTIC_POLICY_ARGS): gain, settle, retry. Throws std::invalid_argument
/// naming the one that is wrong.
EconomicSettings economic_settings(const std::string& arguments);

}  // namespace bellows::scheduler
