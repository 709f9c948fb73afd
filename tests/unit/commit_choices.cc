// SPDX-License-Identifier: Apache-2.0
// What can happen in a state of the model.
#include "tests/unit/commit_model.h"

namespace bellows::commit_model {

namespace {

// Whether a collective of this epoch may fail: a member is gone, or the next epoch is there.
bool is_broken(const State& state, const Epoch& epoch) {
  if (epoch.number < state.newest) return true;
  for (int r = 0; r < kMaxRanks; ++r) {
    const Rank& rank = state.ranks[r];
    if (has(epoch.members, r) && rank.life != Life::kAlive) return true;
    if (has(epoch.members, r) && rank.epoch == epoch.number && rank.stage == Stage::kOut)
      return true;
  }
  return false;
}

}  // namespace

// What a rank that is in the newest epoch no more waits for.
bool Model::may_go(const Rank& rank) const {
  return shape_.rule == Rule::kLeaveBeforeOthersStand ? rank.excluded != 0 : rank.released != 0;
}

std::vector<Action> Model::actions(const State& state) const {
  std::vector<Action> to;
  int dead = 0, leaves = 0;
  for (const Rank& rank : state.ranks) {
    dead += rank.life == Life::kDead;
    leaves += rank.wanted_away;
  }
  const bool full = state.epochs.back().number != 0;
  const int members = desired(state);
  if (members != epoch_of(state, state.newest).members && members != 0 && !full)
    to.push_back({Kind::kDeclare});
  if (anybody_held(state) && stands(state)) to.push_back({Kind::kStand});
  for (int r = 0; r < kMaxRanks; ++r) {
    const auto rank = static_cast<std::uint8_t>(r);
    const Rank& who = state.ranks[r];
    if (who.life == Life::kUnborn && r == shape_.ranks + state.joins &&
        state.joins < shape_.joiners)
      to.push_back({Kind::kJoin, rank});
    if (who.life != Life::kAlive) continue;
    protocol_actions(state, r, to);
    if (dead < shape_.deaths) to.push_back({Kind::kDie, rank});
    if (leaves < shape_.leaves && who.wanted_away == 0) to.push_back({Kind::kLeave, rank});
  }
  return to;
}

void Model::protocol_actions(const State& state, int r, std::vector<Action>& to) const {
  const Rank& rank = state.ranks[r];
  const auto who = static_cast<std::uint8_t>(r);
  if (rank.stage == Stage::kOut) {
    const bool member = has(epoch_of(state, state.newest).members, r);
    if (rank.epoch < state.newest && (member || may_go(rank))) to.push_back({Kind::kEnter, who});
    return;
  }
  const Epoch& epoch = epoch_of(state, rank.epoch);
  const bool all_completed =
      rank.stage == Stage::kStep && rank.completed == (1 << shape_.buckets) - 1;
  if (is_broken(state, epoch) && !all_completed) to.push_back({Kind::kFail, who});
  switch (rank.stage) {
    case Stage::kOpen:
      if (all_members(epoch, [](const Place& p) { return p.entered != 0; }))
        to.push_back({Kind::kOpened, who});
      break;
    case Stage::kCompare:
      if (all_members(epoch, [](const Place& p) { return p.compared != 0; }))
        to.push_back({Kind::kCompared, who});
      break;
    case Stage::kTransfer: {
      // A broadcast is no barrier: the source goes on as soon as it has sent.
      const auto is_source = [&](int m) {
        return has(epoch.members, m) && (shape_.rule == Rule::kSourceIsLowest ||
                                         epoch.places[m].said_step == furthest_step(epoch));
      };
      int source = lowest_member(epoch);
      while (!is_source(source)) ++source;
      if (r == source) {
        to.push_back({Kind::kSend, who});
      } else if (epoch.places[source].sent > rank.received) {
        to.push_back({Kind::kReceive, who});
      }
      break;
    }
    case Stage::kStep:
      step_actions(state, r, to);
      break;
    case Stage::kFinish:
      if (all_members(epoch, [&](const Place& p) { return p.attempt >= epoch.places[r].attempt; }))
        to.push_back({Kind::kFinish, who});
      break;
    case Stage::kOut:
      break;
  }
}

// Buckets are posted one after the other and complete in any order, each at each rank for itself.
void Model::step_actions(const State& state, int r, std::vector<Action>& to) const {
  const Rank& rank = state.ranks[r];
  const auto who = static_cast<std::uint8_t>(r);
  const Epoch& epoch = epoch_of(state, rank.epoch);
  const Place& own = epoch.places[r];
  if (own.posted < shape_.buckets) {
    to.push_back({Kind::kPost, who});
    // Members hear of the next epoch at any time after it is declared.
    if (own.posted == 0 && r == lowest_member(epoch) && epoch.number < state.newest)
      to.push_back({Kind::kPostWord, who});
  }
  for (std::uint8_t b = 0; b < own.posted; ++b) {
    if (has(rank.completed, b)) continue;
    if (all_members(epoch, [&](const Place& p) {
          return p.attempt > own.attempt || (p.attempt == own.attempt && p.posted > b);
        }))
      to.push_back({Kind::kComplete, who, b});
  }
  if (rank.completed == (1 << shape_.buckets) - 1) to.push_back({Kind::kApply, who});
}

// Who should be in the world. A leaver is kept for as long as anybody has to get the state, and
// called back when somebody dies before the world without it stands.
int Model::desired(const State& state) const {
  const bool under_way = shape_.rule != Rule::kLeaveBeforeOthersStand && anybody_held(state) &&
                         state.standing != state.newest;
  if (under_way && all_alive(state)) return epoch_of(state, state.newest).members;
  int staying = 0, leaving = 0;
  bool all_hold = true;
  for (int r = 0; r < kMaxRanks; ++r) {
    const Rank& rank = state.ranks[r];
    if (rank.life != Life::kAlive || may_go(rank)) continue;
    if (rank.wanted_away != 0) {
      leaving |= 1 << r;
    } else {
      staying |= 1 << r;
      all_hold = all_hold && rank.step >= 0;
    }
  }
  const bool may_leave = all_hold || shape_.rule == Rule::kLeaveBeforeJoinersSet;
  return staying != 0 && may_leave && !under_way ? staying : staying | leaving;
}

}  // namespace bellows::commit_model
