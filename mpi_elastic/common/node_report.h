// SPDX-License-Identifier: Apache-2.0
// What an agent tells a bellows-run that has taken over, and how the membership of the job is found
// again in the reports of all nodes. Pure bookkeeping.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mpi_elastic/common/membership.h"
#include "mpi_elastic/common/world_spec.h"

namespace bellows::elastic {

struct RankReport {
  std::uint64_t member = 0;
  std::int64_t pid = 0;
  double seconds = 0;      // since its start
  bool connected = false;  // has called MPI_Init or opened a session
  bool elastic = false;    // uses ElasticWorld
  bool ready = false;      // has said that it can be taken into a world
  bool dismissed = false;  // was asked to leave
  bool released = false;   // ... and may go
  // Newest epochs of which it has said so; 0 = none.
  std::uint32_t entered = 0;
  std::uint32_t left = 0;
  std::uint32_t trouble = 0;
  std::optional<int> abort_status;
  std::optional<boost::json::object> end;  // the message "exited", when it has ended
};

struct NodeReport {
  std::string node;
  std::vector<WorldSpec> worlds;
  std::vector<RankReport> ranks;
  std::uint64_t context = 0;  // the highest of a group that was heard of
  std::uint64_t failed = 0;   // requests of ranks that were open when the launcher was lost
};

boost::json::object to_json(const NodeReport& report);
/// Throws protocol::ProtocolError.
NodeReport node_report_from_json(const boost::json::object& object);

/// What the reports say of the newest world.
struct FoundJob {
  std::set<std::uint64_t> lost;         // its members that no node knows
  std::set<std::uint64_t> not_entered;  // its living members that are not in it
  std::set<std::uint64_t> held;         // who leaves, and has not been released
  std::set<std::uint64_t> gone;         // members of older worlds that are dead or have left
  bool broken = false;                  // it cannot stand without a new epoch
  std::uint64_t context = 0;
};

/// Fills a membership that knows the nodes and nothing else. Members of the newest world that have
/// ended, or are lost, are restored as alive: what follows from their end is the caller's.
FoundJob restore(Membership& membership, const std::vector<NodeReport>& reports);

}  // namespace bellows::elastic
