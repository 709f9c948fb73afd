// SPDX-License-Identifier: Apache-2.0
// A state of the model of the step commit: plain bytes without gaps, so that it can be hashed.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace bellows::commit_model {

constexpr int kMaxRanks = 8;
constexpr int kMaxBuckets = 3;
constexpr int kMaxEpochs = 4;  // that some living rank is still in, and the newest
constexpr int kPieces = 2;     // of a state on its way

enum class Life : std::uint8_t { kUnborn, kAlive, kDead, kLeft, kFinished, kGaveUp };
enum class Stage : std::uint8_t { kOpen, kCompare, kTransfer, kStep, kFinish, kOut };

/// What a rank has given to an epoch's collectives. Stays when the rank is gone.
struct Place {
  std::uint8_t entered = 0;   // has called open
  std::uint8_t compared = 0;  // has said:
  std::int8_t said_step = 0;
  std::uint8_t sent = 0;     // pieces of its state
  std::uint8_t attempt = 0;  // steps begun in this epoch, and the final barrier
  std::uint8_t posted = 0;   // buckets of the latest
  // Of the latest two, by attempt % 2: which step's samples, on which content, with which word.
  std::array<std::int8_t, 2> batch{};
  std::array<std::int8_t, 2> base{};
  std::array<std::uint8_t, 2> word{};
};

struct Epoch {
  std::uint8_t number = 0;  // 0: none in this slot
  std::uint8_t members = 0;
  std::int8_t agreed = -1;  // the step that the first to be in step here had
  std::array<Place, kMaxRanks> places;
};

/// `step` is what the rank would say; `content` what it holds: content n is what the batches 1 to n
/// make, each once and in this order, -1 is none.
struct Rank {
  Life life = Life::kUnborn;
  Stage stage = Stage::kOut;
  std::uint8_t epoch = 0;  // where it is, or was last
  std::int8_t step = -1;
  std::array<std::int8_t, kPieces> content{-1, -1};
  std::uint8_t received = 0;   // pieces in staging
  std::uint8_t completed = 0;  // buckets, a bit each
  std::uint8_t wanted_away = 0;
  std::uint8_t excluded = 0;     // from the newest epoch; it holds its state until it is released
  std::uint8_t released = 0;     // may go
  std::uint8_t called_back = 0;  // by this epoch; the others may have gone on meanwhile
  std::uint8_t has_held = 0;     // a state, at some time
};

struct State {
  std::uint8_t newest = 0;  // epoch
  std::uint8_t joins = 0;
  std::uint8_t staying_holder_died = 0;
  std::uint8_t standing = 0;  // newest epoch that all its members have entered
  std::uint8_t stood = 0;     // its members, a bit each
  std::array<Rank, kMaxRanks> ranks;
  std::array<Epoch, kMaxEpochs> epochs;  // oldest first
};
static_assert(sizeof(State) == 5 + kMaxRanks * sizeof(Rank) + kMaxEpochs * sizeof(Epoch));

/// Whether a set of ranks (a bit each) has this one.
inline bool has(int set, int rank) { return (set >> rank & 1) != 0; }
inline std::string name(int rank) { return "rank " + std::to_string(rank); }

/// Of that number; one that somebody is in, or the newest.
inline Epoch& epoch_of(State& state, int number) {
  return *std::find_if(state.epochs.begin(), state.epochs.end(),
                       [&](const Epoch& e) { return e.number == number; });
}
inline const Epoch& epoch_of(const State& state, int number) {
  return epoch_of(const_cast<State&>(state), number);
}
inline Place& place_of(State& state, int rank) {
  return epoch_of(state, state.ranks[rank].epoch).places[rank];
}

inline bool is_inside(const Rank& rank) {
  return rank.life == Life::kAlive && rank.stage != Stage::kOut;
}

/// Of all members' places, those of the dead included.
template <typename Predicate>
bool all_members(const Epoch& epoch, Predicate predicate) {
  for (int r = 0; r < kMaxRanks; ++r)
    if (has(epoch.members, r) && !predicate(epoch.places[r])) return false;
  return true;
}

/// Who leaves and has not been released.
inline bool anybody_held(const State& state) {
  return std::any_of(state.ranks.begin(), state.ranks.end(), [](const Rank& rank) {
    return rank.life == Life::kAlive && rank.excluded != 0 && rank.released == 0;
  });
}

/// Whether the newest epoch is as it was declared.
inline bool all_alive(const State& state) {
  const Epoch& newest = epoch_of(state, state.newest);
  for (int r = 0; r < kMaxRanks; ++r)
    if (has(newest.members, r) && state.ranks[r].life != Life::kAlive) return false;
  return true;
}

/// Whether all its members have entered it.
inline bool stands(const State& state) {
  const Epoch& newest = epoch_of(state, state.newest);
  return all_alive(state) && state.standing != state.newest &&
         all_members(newest, [](const Place& p) { return p.entered != 0; });
}

inline int lowest_member(const Epoch& epoch) { return std::countr_zero(epoch.members); }

/// The furthest that any member has said in the comparison; -1: nobody has a state.
inline int furthest_step(const Epoch& epoch) {
  int step = -1;
  all_members(epoch, [&](const Place& p) { return step = std::max<int>(step, p.said_step), true; });
  return step;
}

}  // namespace bellows::commit_model
