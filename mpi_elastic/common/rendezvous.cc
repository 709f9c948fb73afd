// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/common/rendezvous.h"

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/message.h"

namespace bellows::elastic {
namespace {

constexpr std::array<std::pair<CollectiveKind, std::string_view>, 4> kNames{
    {{CollectiveKind::fence, "fence"},
     {CollectiveKind::connect, "connect"},
     {CollectiveKind::disconnect, "disconnect"},
     {CollectiveKind::group, "group"}}};

bool needs_everyone(CollectiveKind kind) {
  return kind == CollectiveKind::connect || kind == CollectiveKind::group;
}

}  // namespace

std::string_view to_text(CollectiveKind kind) {
  return kNames[static_cast<std::size_t>(kind)].second;
}

CollectiveKind collective_kind(std::string_view text) {
  for (const auto& [kind, name] : kNames) {
    if (name == text) return kind;
  }
  throw protocol::ProtocolError("unknown kind of collective \"" + std::string(text) + "\"");
}

Rendezvous::Expected Rendezvous::expected(const std::vector<Proc>& procs) const {
  Expected result;
  const auto add = [&](const WorldSpec& world, std::int64_t rank) {
    const NodeShare* node = world.node_of(rank);
    if (node == nullptr || membership_.gone({world.nspace, rank})) {
      result.member_dead = true;
    } else {
      result.nodes.insert(node->name);
    }
  };
  for (const Proc& proc : procs) {
    const WorldSpec* world = membership_.world(proc.nspace);
    if (doomed_.contains(proc.nspace)) {
      result.doomed = true;
    } else if (world == nullptr) {
      result.member_dead = true;
    } else if (proc.rank != kAllRanks) {
      add(*world, proc.rank);
    } else {
      for (std::int64_t rank = 0; rank < world->size(); ++rank) add(*world, rank);
    }
  }
  return result;
}

bool Rendezvous::finish(const std::string& key, const Pending& pending, CollectiveResult& result) {
  const Expected wanted = expected(pending.procs);
  result.member_dead = wanted.doomed || (wanted.member_dead && needs_everyone(pending.kind));
  if (!result.member_dead) {
    const bool complete =
        std::all_of(wanted.nodes.begin(), wanted.nodes.end(),
                    [&](const std::string& node) { return pending.data.contains(node); });
    if (!complete) return false;
  }
  result.kind = pending.kind;
  result.key = key;
  for (const auto& [node, data] : pending.data) {
    result.nodes.push_back(node);
    if (!result.member_dead) result.data += data;
  }
  if (pending.kind == CollectiveKind::group) result.context = next_context_++;
  return true;
}

std::vector<CollectiveResult> Rendezvous::contribute(const std::string& node,
                                                     Contribution contribution) {
  Pending& pending = pending_[contribution.key];
  pending.kind = contribution.kind;
  pending.procs = std::move(contribution.procs);
  pending.data[node] = std::move(contribution.data);
  std::vector<CollectiveResult> results;
  CollectiveResult result;
  if (finish(contribution.key, pending, result)) {
    pending_.erase(contribution.key);
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<CollectiveResult> Rendezvous::doom(const std::string& nspace) {
  doomed_.insert(nspace);
  return recheck();
}

std::vector<CollectiveResult> Rendezvous::recheck() {
  std::vector<CollectiveResult> results;
  for (auto at = pending_.begin(); at != pending_.end();) {
    CollectiveResult result;
    if (finish(at->first, at->second, result)) {
      results.push_back(std::move(result));
      at = pending_.erase(at);
    } else {
      ++at;
    }
  }
  return results;
}

}  // namespace bellows::elastic
