// SPDX-License-Identifier: Apache-2.0
// What an action does.
#include "tests/unit/commit_model.h"

#include <algorithm>

namespace bellows::commit_model {

namespace {

// Slots of epochs that nobody is in any more are given back.
void tidy(State& state) {
  auto& epochs = state.epochs;
  const auto last = std::remove_if(epochs.begin(), epochs.end(), [&](const Epoch& e) {
    return e.number == 0 ||
           (e.number != state.newest &&
            std::none_of(state.ranks.begin(), state.ranks.end(),
                         [&](const Rank& r) { return is_inside(r) && r.epoch == e.number; }));
  });
  std::fill(last, epochs.end(), Epoch{});
}

}  // namespace

State Model::first() const {
  State state;
  for (int r = 0; r < shape_.ranks; ++r) {
    Rank& rank = state.ranks[r];
    rank.life = Life::kAlive;
    rank.step = 0;
    rank.content.fill(0);
    rank.has_held = 1;
  }
  declare(state);
  state.stood = epoch_of(state, state.newest).members;  // in effect: none can go before
  return state;
}

void Model::declare(State& state) const {
  const int members = desired(state);
  tidy(state);
  Epoch& epoch = *std::find_if(state.epochs.begin(), state.epochs.end(),
                               [](const Epoch& e) { return e.number == 0; });
  epoch.number = ++state.newest;
  epoch.members = static_cast<std::uint8_t>(members);
  for (int r = 0; r < kMaxRanks; ++r) {
    Rank& rank = state.ranks[r];
    if (rank.life != Life::kAlive || rank.wanted_away == 0) continue;
    if (has(members, r) && rank.excluded != 0) rank.called_back = state.newest;
    rank.excluded = has(members, r) ? 0 : 1;
  }
}

void Model::stand(State& state) const {
  state.standing = state.newest;
  state.stood = epoch_of(state, state.newest).members;
  for (Rank& rank : state.ranks) {
    if (rank.life == Life::kAlive && rank.excluded != 0) rank.released = 1;
  }
}

std::string Model::apply(State& state, Action action) const {
  const State before = state;
  const int r = action.rank;
  Rank& rank = state.ranks[r];
  std::string wrong;
  switch (action.kind) {
    case Kind::kDie:
      die(state, r);
      break;
    case Kind::kJoin:
      rank.life = Life::kAlive;
      ++state.joins;
      break;
    case Kind::kLeave:
      rank.wanted_away = 1;
      break;
    case Kind::kDeclare:
      declare(state);
      break;
    case Kind::kStand:
      stand(state);
      break;
    case Kind::kEnter:
      wrong = enter(state, r);
      break;
    case Kind::kFail:
      fail(state, r);
      break;
    case Kind::kOpened: {
      rank.stage = Stage::kCompare;
      Place& own = place_of(state, r);
      own.compared = 1;
      own.said_step = rank.step;
      if (rank.step >= 0 && rank.content[0] != rank.content[kPieces - 1])
        wrong = name(r) + " goes on with a state that is half of one step and half of another";
      if (shape_.rule == Rule::kNobodyCompares) wrong = in_step(state, r);
      break;
    }
    case Kind::kCompared:
      wrong = compared(state, r);
      break;
    case Kind::kSend:
      if (++place_of(state, r).sent == kPieces) wrong = in_step(state, r);
      break;
    case Kind::kReceive:
      receive(state, r);
      if (rank.received == kPieces) wrong = in_step(state, r);
      break;
    case Kind::kPost:
    case Kind::kPostWord:
      post(state, r, action.kind == Kind::kPostWord);
      break;
    case Kind::kComplete:
      rank.completed |= static_cast<std::uint8_t>(1 << action.detail);
      break;
    case Kind::kApply:
      wrong = commit(state, r);
      break;
    case Kind::kFinish:
      rank.life = Life::kFinished;
      break;
  }
  tidy(state);
  return wrong.empty() ? fault(before, state) : wrong;
}

void Model::die(State& state, int r) const {
  Rank& rank = state.ranks[r];
  if (rank.step >= 0 && !may_go(rank)) state.staying_holder_died = 1;
  // What it has given stays in its places; nothing else of it matters any more.
  const auto wanted_away = rank.wanted_away;
  rank = Rank{};
  rank.life = Life::kDead;
  rank.wanted_away = wanted_away;
}

std::string Model::enter(State& state, int r) const {
  Rank& rank = state.ranks[r];
  rank.epoch = state.newest;
  Epoch& epoch = epoch_of(state, state.newest);
  if (!has(epoch.members, r)) {
    rank.life = Life::kLeft;
    return "";
  }
  rank.stage = Stage::kOpen;
  rank.received = 0;
  epoch.places[r].entered = 1;
  // The launcher hears of it at once, unless somebody waits for its word.
  if (!anybody_held(state) && stands(state)) stand(state);
  return "";
}

std::string Model::compared(State& state, int r) const {
  Rank& rank = state.ranks[r];
  Epoch& epoch = epoch_of(state, rank.epoch);
  const int step = furthest_step(epoch);
  if (step < 0) {
    rank.life = Life::kGaveUp;
    return "";
  }
  if (all_members(epoch, [&](const Place& p) { return p.said_step == step; }))
    return in_step(state, r);
  const bool source_may_be_lower = shape_.rule == Rule::kSourceIsLowest;
  const int lowest = lowest_member(epoch);
  // Who needs nothing and gives nothing goes on.
  int source = lowest;
  while (!source_may_be_lower && epoch.places[source].said_step != step) ++source;
  if (r != source && rank.step == step && !source_may_be_lower) return in_step(state, r);
  rank.stage = Stage::kTransfer;
  if (shape_.rule == Rule::kInPlaceInvalidFirst && r != source) rank.step = -1;
  return "";
}

void Model::receive(State& state, int r) const {
  Rank& rank = state.ranks[r];
  const Epoch& epoch = epoch_of(state, rank.epoch);
  int step = furthest_step(epoch);
  if (shape_.rule == Rule::kSourceIsLowest)
    step = std::max<int>(epoch.places[lowest_member(epoch)].said_step, -1);
  if (shape_.rule == Rule::kInPlace || shape_.rule == Rule::kInPlaceInvalidFirst)
    rank.content[rank.received] = static_cast<std::int8_t>(step);
  if (++rank.received < kPieces) return;
  rank.content.fill(static_cast<std::int8_t>(step));
  rank.step = static_cast<std::int8_t>(step);
  rank.has_held = 1;
}

// The rank has the state that the epoch goes on with: to the next step, or the end.
std::string Model::in_step(State& state, int r) const {
  Rank& rank = state.ranks[r];
  Epoch& epoch = epoch_of(state, rank.epoch);
  if (epoch.agreed < 0) epoch.agreed = rank.step;
  Place& own = epoch.places[r];
  ++own.attempt;
  own.posted = 0;
  rank.completed = 0;
  rank.received = 0;
  if (rank.epoch >= rank.called_back) rank.called_back = 0;
  own.batch[own.attempt % 2] = -1;
  rank.stage = rank.step < shape_.steps ? Stage::kStep : Stage::kFinish;
  if (own.attempt > 1 || shape_.rule == Rule::kNobodyCompares) return "";
  if (rank.step != epoch.agreed)
    return name(r) + " begins the epoch at step " + std::to_string(rank.step) + ", another at " +
           std::to_string(epoch.agreed);
  if (rank.step < furthest_step(epoch))
    return "a member has committed step " + std::to_string(furthest_step(epoch)) +
           ", and the epoch begins at " + std::to_string(rank.step);
  return "";
}

void Model::post(State& state, int r, bool word) const {
  const Rank& rank = state.ranks[r];
  Place& own = place_of(state, r);
  const int which = own.attempt % 2;
  if (own.posted++ > 0) return;
  own.batch[which] = static_cast<std::int8_t>(rank.step + 1);
  own.base[which] = rank.content[0];
  own.word[which] = word ? 1 : 0;
}

// The sums are those of one batch on one content, from all members: or the step is wrong.
std::string Model::commit(State& state, int r) const {
  Rank& rank = state.ranks[r];
  Epoch& epoch = epoch_of(state, rank.epoch);
  const int which = epoch.places[r].attempt % 2;
  for (int m = 0; m < kMaxRanks; ++m) {
    const Place& other = epoch.places[m];
    if (!has(epoch.members, m)) continue;
    if (other.batch[which] == rank.step + 1 && other.base[which] == rank.content[0]) continue;
    return name(r) + " applies step " + std::to_string(rank.step + 1) + " with a share of " +
           name(m) + " that is of step " + std::to_string(other.batch[which]) + " on content " +
           std::to_string(other.base[which]);
  }
  const bool change = epoch.places[lowest_member(epoch)].word[which] != 0;
  ++rank.step;
  for (auto& piece : rank.content) ++piece;
  if (!change) return in_step(state, r);
  rank.stage = Stage::kOut;
  rank.completed = 0;
  return "";
}

void Model::fail(State& state, int r) const {
  Rank& rank = state.ranks[r];
  const bool word_seen = rank.stage == Stage::kStep && has(rank.completed, 0);
  if (shape_.rule == Rule::kControlWordIsProof && word_seen) ++rank.step;
  rank.stage = Stage::kOut;
  rank.received = 0;
  rank.completed = 0;
}

}  // namespace bellows::commit_model
