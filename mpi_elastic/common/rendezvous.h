// SPDX-License-Identifier: Apache-2.0
// PMIx collectives (fence, connect, disconnect, group) between nodes: each agent contributes once
// when all its local participants are in, and all hear the result together. Pure bookkeeping.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_elastic/common/membership.h"
#include "mpi_elastic/common/world_spec.h"

namespace bellows::elastic {

enum class CollectiveKind { fence, connect, disconnect, group };
std::string_view to_text(CollectiveKind kind);
/// Throws protocol::ProtocolError for an unknown name.
CollectiveKind collective_kind(std::string_view text);

struct Contribution {
  CollectiveKind kind = CollectiveKind::fence;
  /// What the participants agree on as the identity of this collective (kind, processes, name).
  std::string key;
  std::vector<Proc> procs;  // rank kAllRanks: the whole namespace
  std::string data;
};

struct CollectiveResult {
  CollectiveKind kind = CollectiveKind::fence;
  std::string key;
  bool member_dead = false;        // a participant is dead: connect and group fail
  std::uint64_t context = 0;       // group only: an id that no other group has
  std::string data;                // all contributions, in the order of the nodes' names
  std::vector<std::string> nodes;  // who is waiting for it
};

/// A fence goes on without the dead, as the survivors of a failure need it; connect and group
/// need every member, and fail for early and late callers alike once one is dead.
class Rendezvous {
 public:
  explicit Rendezvous(const Membership& membership) : membership_(membership) {}

  /// Groups are numbered from here on.
  void contexts_from(std::uint64_t first) { next_context_ = first; }

  /// Returns what this contribution completed: nothing, or one result.
  std::vector<CollectiveResult> contribute(const std::string& node, Contribution contribution);
  /// Nothing that this namespace's processes wait for will come: what is pending fails, and so does
  /// what they still begin.
  std::vector<CollectiveResult> doom(const std::string& nspace);
  /// To be called after any death: returns what completed or failed by it.
  std::vector<CollectiveResult> recheck();

 private:
  struct Pending {
    CollectiveKind kind;
    std::vector<Proc> procs;
    std::map<std::string, std::string> data;  // by node
  };
  struct Expected {
    std::set<std::string> nodes;
    bool member_dead = false;
    bool doomed = false;
  };
  Expected expected(const std::vector<Proc>& procs) const;
  bool finish(const std::string& key, const Pending& pending, CollectiveResult& result);

  const Membership& membership_;
  std::map<std::string, Pending> pending_;
  std::set<std::string> doomed_;  // namespaces
  std::uint64_t next_context_ = 1;
};

}  // namespace bellows::elastic
