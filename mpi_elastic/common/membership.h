// SPDX-License-Identifier: Apache-2.0
// Who belongs to the job: its nodes, its member processes, and the epochs of the world that were
// declared from them. Pure bookkeeping of the coordinator: no sockets, no time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mpi_elastic/common/world_spec.h"

namespace bellows::elastic {

enum class MemberState {
  planned,   // not started yet
  joining,   // loads its program and data; in no world yet
  running,   // forked by its node's agent
  leaving,   // asked to go: in no later world
  finished,  // ended in order
  dead,      // ended otherwise, or its node is lost
};

struct Member {
  std::uint64_t id = 0;
  std::string node;
  MemberState state = MemberState::planned;
};

class Membership {
 public:
  /// `base`: the part of the namespaces' names before the @.
  explicit Membership(std::string base) : base_(std::move(base)) {}

  const std::string& base() const { return base_; }

  /// A node that is to have an agent; its id is new each time, also for a name seen before.
  std::uint32_t add_node(const std::string& name);
  /// The id of a node that was added and not lost. Throws std::out_of_range.
  std::uint32_t node_id(const std::string& name) const { return nodes_.at(name); }
  /// The node's members die with it. Returns those that were alive.
  std::vector<std::uint64_t> lose_node(const std::string& name);
  bool has_node(const std::string& name) const { return nodes_.contains(name); }

  /// For a job that is found running: nodes, members and worlds as they were known before. Ids and
  /// epochs go on above the highest.
  void restore_node(const std::string& name, std::uint32_t id);
  void restore_member(const Member& member);
  void restore_world(const WorldSpec& world);
  std::uint32_t next_node() const { return next_node_; }
  void set_next_node(std::uint32_t id) { next_node_ = id; }

  /// A new member on a known node.
  std::uint64_t add_member(const std::string& node);
  /// False when the member is unknown or had ended before.
  bool end_member(std::uint64_t id, MemberState how);
  void set_running(std::uint64_t id);
  void set_state(std::uint64_t id, MemberState state);
  const Member* member(std::uint64_t id) const;
  /// Members that have not ended.
  std::size_t alive() const;
  std::vector<std::uint64_t> members_in(MemberState state) const;
  /// Members on this node that have not ended.
  std::vector<std::uint64_t> members_on(const std::string& node) const;
  const std::map<std::string, std::uint32_t>& nodes() const { return nodes_; }

  /// A new epoch of all members that are planned or running, node by node in the order in which
  /// the nodes were added, each node's members in the order of their ids. Throws std::runtime_error
  /// when there is none, or after 65535 epochs.
  const WorldSpec& declare_epoch();
  const WorldSpec* world(const std::string& nspace) const;
  /// The newest epoch, or null before the first.
  const WorldSpec* newest() const { return world(newest_); }
  const std::map<std::string, WorldSpec>& worlds() const { return worlds_; }
  /// Forgets the epochs before this one; returns their namespaces.
  std::vector<std::string> forget_before(std::uint32_t epoch);

  /// The process of this member in the newest epoch, if it is in it.
  std::optional<Proc> newest_proc(std::uint64_t member) const;
  /// Every identity that the member has had.
  std::vector<Proc> procs_of(std::uint64_t member) const;
  /// True when the process has ended, or never was.
  bool gone(const Proc& proc) const;

 private:
  std::string base_;
  std::map<std::string, std::uint32_t> nodes_;  // name -> id
  std::map<std::uint64_t, Member> members_;
  std::map<std::string, WorldSpec> worlds_;  // by namespace
  std::string newest_;
  std::uint32_t next_node_ = 0;
  std::uint64_t next_member_ = 1;
  std::uint32_t next_epoch_ = 1;
};

}  // namespace bellows::elastic
