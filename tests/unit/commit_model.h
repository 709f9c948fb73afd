// SPDX-License-Identifier: Apache-2.0
// A model of the step commit (docs/elastic.md): ranks that share steps, die, join and leave, and a
// launcher that declares epochs. No MPI and no time: everything that can happen next is an action,
// and a state says which are possible. Whoever explores it (commit_explorer.h) sees what any order
// of them leads to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/commit_state.h"

namespace bellows::commit_model {

/// What is played: the protocol, or one with a mistake that must be found.
enum class Rule : std::uint8_t {
  kRight,
  kNobodyCompares,          // after a change everybody goes on with what it has
  kInPlace,                 // the receiver overwrites its state, piece by piece
  kInPlaceInvalidFirst,     // ... having said that it has none now
  kControlWordIsProof,      // who has seen the control word counts the step, its buckets or not
  kSourceIsLowest,          // after the comparison rank 0's state is taken, not the furthest's
  kLeaveBeforeJoinersSet,   // a leaver is let go while others have not got the state yet
  kLeaveBeforeOthersStand,  // ... while the others have not entered their world yet
};

struct Shape {
  int ranks = 2;    // at the beginning
  int buckets = 1;  // reductions per step; the first carries the control word
  int steps = 1;
  int deaths = 1;  // at most
  int joiners = 0;
  int leaves = 0;
  Rule rule = Rule::kRight;
};

enum class Kind : std::uint8_t {
  // by nobody's will
  kDie,
  kJoin,   // a joiner is ready
  kLeave,  // somebody wants this rank to leave
  // the protocol
  kDeclare,  // the launcher: a new epoch
  kStand,    // the launcher: all have entered the newest, and who is not in it may go
  kEnter,    // a rank that is outside goes into the newest epoch, or ends as it is not wanted
  kFail,     // what a rank waits for fails, as a member of the epoch is gone
  kOpened,   // the world is open
  kCompared,
  kSend,      // the source: the next piece of the state
  kReceive,   // the next piece of the state
  kPost,      // a rank gives its share of the next bucket
  kPostWord,  // ... with rank 0's word that a change is due
  kComplete,  // a bucket (`detail`) is reduced at this rank
  kApply,     // all buckets are: the step is committed at this rank
  kFinish,    // the last barrier is over
};

struct Action {
  Kind kind;
  std::uint8_t rank = 0;
  std::uint8_t detail = 0;
};

class Model {
 public:
  explicit Model(const Shape& shape) : shape_(shape) {}

  State first() const;
  /// All that can happen. Nothing of the protocol: then `end_fault` says whether it may stay so.
  std::vector<Action> actions(const State& state) const;
  /// Makes it happen. Returns what is wrong then, in words, or nothing.
  std::string apply(State& state, Action action) const;
  /// For a state in which nothing of the protocol can happen: what is wrong with it, or nothing.
  std::string end_fault(const State& state) const;

  static bool is_protocol(Action action) { return action.kind >= Kind::kDeclare; }
  std::string describe(const State& before, Action action) const;
  /// All ranks in one line: steps, † for the dead.
  std::string describe(const State& state) const;

 private:
  void protocol_actions(const State& state, int rank, std::vector<Action>& to) const;
  void step_actions(const State& state, int rank, std::vector<Action>& to) const;
  int desired(const State& state) const;
  bool may_go(const Rank& rank) const;
  void declare(State& state) const;
  void stand(State& state) const;
  std::string enter(State& state, int rank) const;
  std::string compared(State& state, int rank) const;
  void receive(State& state, int rank) const;
  std::string in_step(State& state, int rank) const;
  void post(State& state, int rank, bool word) const;
  std::string commit(State& state, int rank) const;
  void fail(State& state, int rank) const;
  void die(State& state, int rank) const;
  std::string fault(const State& before, const State& state) const;

  Shape shape_;
};

}  // namespace bellows::commit_model
