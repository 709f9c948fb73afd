// SPDX-License-Identifier: Apache-2.0
// What one epoch of the world consists of: which processes, in which order, on which nodes. The
// coordinator declares it, each agent registers it with its PMIx server.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace bellows::elastic {

/// Identity of a process in the PMIx sense. Rank kAllRanks stands for every rank of the namespace.
inline constexpr std::int64_t kAllRanks = -1;
struct Proc {
  std::string nspace;
  std::int64_t rank = kAllRanks;
  auto operator<=>(const Proc&) const = default;
};

boost::json::value to_json(const std::vector<Proc>& procs);
/// Throws protocol::ProtocolError when `value` is no list of [nspace, rank].
std::vector<Proc> procs_from_json(const boost::json::value& value);
/// "bellows-4711@1:3", "bellows-4711@1:*"
std::string to_text(const Proc& proc);

/// The consecutive ranks that one node holds.
struct NodeShare {
  std::string name;
  std::uint32_t id = 0;     // of the node, unique in the job, never used again
  std::uint32_t first = 0;  // rank
  std::uint32_t count = 0;
};

struct WorldSpec {
  /// "BASE@EPOCH": Open MPI takes the number after the @ as the low 16 bits of its job id.
  std::string nspace;
  std::uint32_t epoch = 0;  // 1 to 65535
  std::vector<NodeShare> nodes;
  /// The member (a process for as long as it lives, whatever its rank) that is rank i.
  std::vector<std::uint64_t> members;

  std::uint32_t size() const { return static_cast<std::uint32_t>(members.size()); }
  /// The share of a node, or null.
  const NodeShare* share_of(const std::string& node) const;
  /// The node of a rank, or null when the rank is out of range.
  const NodeShare* node_of(std::int64_t rank) const;
};

boost::json::object to_json(const WorldSpec& spec);
WorldSpec world_spec_from_json(const boost::json::object& object);

/// What the ranks run.
struct Program {
  std::vector<std::string> arguments;  // [0] is the program
  std::vector<std::string> environment;
  std::string directory;
};

boost::json::object to_json(const Program& program);
Program program_from_json(const boost::json::object& object);

}  // namespace bellows::elastic
