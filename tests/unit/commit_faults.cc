// SPDX-License-Identifier: Apache-2.0
// What must hold in every state, and the words for it all.
#include <algorithm>

#include "tests/unit/commit_model.h"

namespace bellows::commit_model {

std::string Model::fault(const State& before, const State& state) const {
  int low = 127, high = -1;
  bool holder = false, finished = false, former_holder = false, alive = false;
  for (int r = 0; r < kMaxRanks; ++r) {
    const Rank& rank = state.ranks[r];
    finished = finished || rank.life == Life::kFinished;
    if (rank.life != Life::kAlive) continue;
    alive = true;
    former_holder = former_holder || rank.has_held != 0;
    if (rank.step < before.ranks[r].step && shape_.rule != Rule::kInPlaceInvalidFirst)
      return name(r) + " goes back from step " + std::to_string(before.ranks[r].step) + " to " +
             std::to_string(rank.step);
    if (rank.step < 0) continue;
    holder = true;
    if (rank.content[0] == rank.content[kPieces - 1] && rank.content[0] != rank.step)
      return name(r) + " takes the content of step " + std::to_string(rank.content[0]) +
             " for step " + std::to_string(rank.step);
    if (rank.excluded != 0 || rank.called_back != 0) continue;
    low = std::min<int>(low, rank.step);
    high = std::max<int>(high, rank.step);
  }
  if (high > low + 1)
    return "steps " + std::to_string(low) + " and " + std::to_string(high) + " at the same time";
  if (holder || finished) return "";
  for (int r = 0; r < kMaxRanks; ++r) {
    const Rank& rank = state.ranks[r];
    if (has(state.stood, r) && rank.life == Life::kLeft)
      return "the state is lost, and " + name(r) + " has left before the others had a world";
  }
  if (!alive) return "";
  if (former_holder) return "the state is lost, and a rank that had it lives";
  if (state.staying_holder_died == 0) return "the state is lost, and nobody that had it has died";
  return "";
}

std::string Model::end_fault(const State& state) const {
  for (int r = 0; r < kMaxRanks; ++r) {
    const Rank& rank = state.ranks[r];
    if (rank.life == Life::kAlive) return name(r) + " waits for ever";
    if (rank.life != Life::kFinished) continue;
    if (rank.step != shape_.steps || rank.content[0] != shape_.steps)
      return name(r) + " ends with step " + std::to_string(rank.step);
  }
  return "";
}

// ---- in words -----------------------------------------------------------------------------------

std::string Model::describe(const State& before, Action action) const {
  const std::string who = name(action.rank);
  const Rank& rank = before.ranks[action.rank];
  const std::string next = std::to_string(rank.step + 1);
  switch (action.kind) {
    case Kind::kDie:
      return who + " dies";
    case Kind::kJoin:
      return who + " is ready to join";
    case Kind::kLeave:
      return who + " is asked to leave";
    case Kind::kDeclare: {
      std::string members;
      for (int r = 0; r < kMaxRanks; ++r)
        if (has(desired(before), r)) members += " " + std::to_string(r);
      return "the launcher declares epoch " + std::to_string(before.newest + 1) + ":" + members;
    }
    case Kind::kStand:
      return "epoch " + std::to_string(before.newest) + " stands; who is not in it may go";
    case Kind::kEnter:
      return who + (has(epoch_of(before, before.newest).members, action.rank)
                        ? " enters epoch " + std::to_string(before.newest)
                        : " leaves");
    case Kind::kFail:
      return who + " sees a failure in epoch " + std::to_string(rank.epoch);
    case Kind::kOpened:
      return who + " is inside epoch " + std::to_string(rank.epoch) + " and says step " +
             std::to_string(rank.step);
    case Kind::kCompared:
      return who + " has compared";
    case Kind::kSend:
      return who + " sends a piece of its state";
    case Kind::kReceive:
      return who + " receives piece " + std::to_string(rank.received);
    case Kind::kPost:
      return who + " posts a bucket of step " + next;
    case Kind::kPostWord:
      return who + " posts a bucket of step " + next + ": a change is due";
    case Kind::kComplete:
      return who + " has bucket " + std::to_string(action.detail) + " of step " + next;
    case Kind::kApply:
      return who + " applies step " + next;
    case Kind::kFinish:
      return who + " has finished";
  }
  return "";
}

std::string Model::describe(const State& state) const {
  std::string text;
  for (int r = 0; r < shape_.ranks + shape_.joiners; ++r) {
    const Rank& rank = state.ranks[r];
    text += r > 0 ? " " : "";
    if (rank.life == Life::kDead) {
      text += "†";
    } else if (rank.step < 0) {
      text += "-";
    } else {
      text += std::to_string(rank.step);
    }
  }
  return text;
}

}  // namespace bellows::commit_model
