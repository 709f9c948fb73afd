// SPDX-License-Identifier: Apache-2.0
// The communicator that changes: a program that uses it keeps running while ranks join, leave and
// die. Plain MPI; needs bellows-run --elastic to change, and works with a fixed size without it
// (bellows-run, mpirun, srun).
//
//   outside ──open()──▶ entering ──▶ inside ──change()──▶ closing ──▶ entering …
//      ▲                   │            │                    │ ▲
//      └──── restart ◀─────┴────────────┴────────────────────┤ └── called back ──┐
//                                                            └─told to leave─▶ held ──▶ the end
//
// A change is made by all members between two steps (change_wanted() says that one is due; the
// program shares that word among its ranks), or by each member that meets an MpiError. Each state
// but `inside` has a limit on its time; when it is over, the process replaces itself (execve) and
// enters the newest epoch with the state that the program has saved (`Settings::save`), or ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "mpi_elastic/world.h"
#include "protocol/size_hints.h"

namespace bellows {

/// The world cannot be changed or entered: no launcher that could, or a limit is over. `what()`
/// says which, and what was waited for.
class ElasticError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Not wanted any more before it had entered a world: the program should end with exit code 0.
class Dismissed : public ElasticError {
  using ElasticError::ElasticError;
};

/// Numbers for people (`bellows status`) and for schedulers, sent along with the signs of life;
/// those of rank 0 count. `samples_per_second` is of the present world: policies compare sizes by
/// it.
struct Progress {
  std::int64_t step = 0;
  double samples_per_second = 0;
  double samples_left = -1;             // to the end of the run; below 0: not known
  std::int64_t batch = 0;               // samples of the last step, over all ranks; 0: not known
  double learning_rate = -1;            // of the last step; below 0: not known
  std::optional<SizeHints> hints = {};  // for schedulers; nothing: not known
};

class ElasticWorld {
 public:
  struct Settings {
    /// Writes the program's state to an open file (a memfd at offset 0), so that it can go on in a
    /// new image of the process. Called from another thread while the program's own is stuck in
    /// MPI, and never inside an Update. Without it a process that is stuck ends. A signal that the
    /// program has a handler for and that comes from now on, also one that `save` raises by kill(),
    /// is raised again by open() in the new image.
    std::function<void(int file)> save;
  };

  /// Enters the world: at once as one of the first members; a later one first tells the launcher
  /// that it is ready (so: call it when everything is loaded and warm) and waits until the others
  /// are about to take it in. Throws MpiError, ElasticError, Dismissed.
  static ElasticWorld open(Settings settings = {});

  ElasticWorld(ElasticWorld&&) noexcept;
  ElasticWorld& operator=(ElasticWorld&&) noexcept;
  ~ElasticWorld();

  /// Of the present epoch. Invalid after change() until it returns true.
  const World& world() const;
  /// 1 for the first world, higher for each later one (not every number is seen by everyone).
  std::uint32_t epoch() const;
  /// Whether a launcher is there that can change the world.
  bool elastic() const;

  /// True when a newer epoch is declared or this process is to leave. Cheap (an atomic); thread-
  /// safe. Members hear of it at different moments: it must travel with a collective of the step
  /// (rank 0's word suffices), so that all call change() after the same one.
  bool change_wanted() const;

  /// Leaves this world and enters the newest. To be called by all members after the same step, or
  /// by a member that met an MpiError (pass it: where no newer epoch is declared within the limit,
  /// it is thrown again). Returns false when this process is not to go on: the world is closed,
  /// and the program should end with exit code 0. Which state the members are in is the program's
  /// to settle afterwards: a collective may have completed for some of them only.
  /// Where MPI cannot be used any more in this process (it was caught in the middle of a change by
  /// another one), the process replaces itself and this does not return.
  /// Throws ElasticError, MpiError.
  bool change(const MpiError* cause = nullptr);

  /// Around everything that changes the program's state: a step's result, or the state that a
  /// joiner is given. While one exists the process does not replace itself, and after the first in
  /// an epoch the launcher knows that this process holds the state, so that others may leave.
  /// Short.
  class Update {
   public:
    explicit Update(ElasticWorld& world);
    Update(const Update&) = delete;
    Update& operator=(const Update&) = delete;
    ~Update();

   private:
    ElasticWorld& world_;
  };

  void report(const Progress& progress);
  /// The fewest and the most ranks that the launcher allows (--elastic); nothing without an elastic
  /// launcher, or with one that does not say.
  std::optional<std::pair<int, int>> rank_bounds() const;

  /// Asks the launcher for another number of ranks, as `bellows resize` does, and does not wait: a
  /// change is declared when it comes. What it refuses (--elastic, no such place) it says itself.
  /// Without an elastic launcher nothing happens. To be called by one rank.
  void ask_for(int ranks);
  /// Likewise, that a rank of the present world leaves, as `bellows leave` does.
  void ask_to_leave(int rank);

  /// Closes the world at the end of the program. Collective when all members are alive.
  void close();

 private:
  class Impl;
  explicit ElasticWorld(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// True in a process that the launcher started to join a running program.
bool is_joiner();
/// In a process that has replaced itself: the file with what `Settings::save` wrote, at offset 0.
std::optional<int> saved_state();

}  // namespace bellows
