// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/common/membership.h"

#include <algorithm>
#include <stdexcept>

namespace bellows::elastic {
namespace {

bool is_alive(const Member& member) {
  return member.state != MemberState::finished && member.state != MemberState::dead;
}

bool is_in_next_world(const Member& member) {
  return member.state == MemberState::planned || member.state == MemberState::running;
}

// Open MPI packs the number after the @ into 16 bits.
constexpr std::uint32_t kLastEpoch = 65535;

}  // namespace

std::uint32_t Membership::add_node(const std::string& name) { return nodes_[name] = next_node_++; }

void Membership::restore_node(const std::string& name, std::uint32_t id) {
  nodes_[name] = id;
  next_node_ = std::max(next_node_, id + 1);
}

void Membership::restore_member(const Member& member) {
  members_[member.id] = member;
  next_member_ = std::max(next_member_, member.id + 1);
}

void Membership::restore_world(const WorldSpec& world) {
  worlds_[world.nspace] = world;
  if (world.epoch >= next_epoch_) {
    next_epoch_ = world.epoch + 1;
    newest_ = world.nspace;
  }
  for (const std::uint64_t member : world.members) {
    next_member_ = std::max(next_member_, member + 1);
  }
}

std::vector<std::uint64_t> Membership::lose_node(const std::string& name) {
  nodes_.erase(name);
  std::vector<std::uint64_t> lost;
  for (auto& [id, member] : members_) {
    if (member.node == name && is_alive(member)) {
      member.state = MemberState::dead;
      lost.push_back(id);
    }
  }
  return lost;
}

std::uint64_t Membership::add_member(const std::string& node) {
  if (!nodes_.contains(node)) throw std::runtime_error("no agent on node " + node);
  const std::uint64_t id = next_member_++;
  members_[id] = {id, node, MemberState::planned};
  return id;
}

bool Membership::end_member(std::uint64_t id, MemberState how) {
  const auto found = members_.find(id);
  if (found == members_.end() || !is_alive(found->second)) return false;
  found->second.state = how;
  return true;
}

void Membership::set_running(std::uint64_t id) {
  const auto found = members_.find(id);
  if (found != members_.end() && found->second.state == MemberState::planned) {
    found->second.state = MemberState::running;
  }
}

void Membership::set_state(std::uint64_t id, MemberState state) {
  const auto found = members_.find(id);
  if (found != members_.end() && is_alive(found->second)) found->second.state = state;
}

std::vector<std::uint64_t> Membership::members_in(MemberState state) const {
  std::vector<std::uint64_t> result;
  for (const auto& [id, member] : members_) {
    if (member.state == state) result.push_back(id);
  }
  return result;
}

std::vector<std::uint64_t> Membership::members_on(const std::string& node) const {
  std::vector<std::uint64_t> result;
  for (const auto& [id, member] : members_) {
    if (member.node == node && is_alive(member)) result.push_back(id);
  }
  return result;
}

std::vector<std::string> Membership::forget_before(std::uint32_t epoch) {
  std::vector<std::string> forgotten;
  for (const auto& [nspace, spec] : worlds_) {
    if (spec.epoch < epoch) forgotten.push_back(nspace);
  }
  for (const std::string& nspace : forgotten) worlds_.erase(nspace);
  return forgotten;
}

const Member* Membership::member(std::uint64_t id) const {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second;
}

std::size_t Membership::alive() const {
  return static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(),
                                                [](const auto& m) { return is_alive(m.second); }));
}

const WorldSpec& Membership::declare_epoch() {
  if (next_epoch_ > kLastEpoch) throw std::runtime_error("more than 65535 epochs of the world");
  WorldSpec spec;
  spec.epoch = next_epoch_;
  spec.nspace = base_ + "@" + std::to_string(spec.epoch);

  std::vector<std::pair<std::uint32_t, std::string>> by_age;
  for (const auto& [name, id] : nodes_) by_age.emplace_back(id, name);
  std::sort(by_age.begin(), by_age.end());
  for (const auto& [id, name] : by_age) {
    NodeShare share{name, id, spec.size(), 0};
    for (const auto& [member_id, member] : members_) {
      if (member.node == name && is_in_next_world(member)) {
        spec.members.push_back(member_id);
        ++share.count;
      }
    }
    if (share.count > 0) spec.nodes.push_back(share);
  }
  if (spec.members.empty()) throw std::runtime_error("no process is left to form a world");
  ++next_epoch_;
  newest_ = spec.nspace;
  return worlds_[newest_] = std::move(spec);
}

const WorldSpec* Membership::world(const std::string& nspace) const {
  const auto found = worlds_.find(nspace);
  return found == worlds_.end() ? nullptr : &found->second;
}

std::optional<Proc> Membership::newest_proc(std::uint64_t member) const {
  const WorldSpec* newest = world(newest_);
  if (newest == nullptr) return std::nullopt;
  const auto at = std::find(newest->members.begin(), newest->members.end(), member);
  if (at == newest->members.end()) return std::nullopt;
  return Proc{newest_, at - newest->members.begin()};
}

std::vector<Proc> Membership::procs_of(std::uint64_t member) const {
  std::vector<Proc> procs;
  for (const auto& [nspace, spec] : worlds_) {
    const auto at = std::find(spec.members.begin(), spec.members.end(), member);
    if (at != spec.members.end()) procs.push_back({nspace, at - spec.members.begin()});
  }
  return procs;
}

bool Membership::gone(const Proc& proc) const {
  const WorldSpec* spec = world(proc.nspace);
  if (spec == nullptr || proc.rank < 0 || proc.rank >= spec->size()) return true;
  const Member* who = member(spec->members[static_cast<std::size_t>(proc.rank)]);
  return who == nullptr || !is_alive(*who);
}

}  // namespace bellows::elastic
