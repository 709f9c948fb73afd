// SPDX-License-Identifier: Apache-2.0
// A folder of checkpoints of one run: saves, keeps the newest few, finds the newest good one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/file.h"

namespace bellows::checkpoint {

/// Not thread-safe; one Store per folder writes at a time (rank 0's). Any number may read, in other
/// processes and on other nodes too.
///
/// Files are named checkpoint-STEP.h5 (STEP with 12 digits). "Newest" goes by the recorded time of
/// creation, which each save makes later than all before it in the folder: after going back to an
/// older step on purpose, the newly written steps are the newest.
class Store {
 public:
  struct Options {
    int keep = 3;  ///< how many good ones to keep, at least 1; 0 keeps all
  };
  struct Entry {
    std::filesystem::path file;
    Info info;
  };
  /// Told about each file that is passed over, with the reason.
  using OnRefused = std::function<void(const Error&)>;

  /// Touches nothing yet.
  explicit Store(std::filesystem::path folder) : Store(std::move(folder), Options()) {}
  Store(std::filesystem::path folder, Options options);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path file_of(std::int64_t step) const;

  /// Makes the folder if there is none. Throws Error (kIo) when that fails, when something else has
  /// its name, or when nothing can be written into it.
  void prepare() const;

  /// Writes file_of(step), making the folder if there is none, then removes what is beyond `keep`:
  /// never the one just written, never a file that is not a checkpoint of this format, and nothing
  /// when writing failed. Also removes temporary files of writers that are dead.
  /// Throws Error (kIo, kNoSpace), with all older checkpoints as they were.
  Entry save(const State& state, std::int64_t step);

  /// All that peek() accepts, newest first. A missing folder is an empty one.
  /// Throws Error (kIo) when the folder cannot be read.
  std::vector<Entry> list(const OnRefused& on_refused = {}) const;

  /// The newest checkpoint whose every byte is good; nullopt when there is none. Files that are
  /// refused are reported and the next older is tried.
  std::optional<Contents> newest_good(const OnRefused& on_refused = {}) const;

  /// Removes temporary files whose writer is dead, and only those: a writer holds a lock on its
  /// file, on any node. Gives their number; errors are not fatal and leave the file.
  int clean() const;

 private:
  void remove_old(const std::filesystem::path& saved) const;

  std::filesystem::path folder_;
  Options options_;
};

}  // namespace bellows::checkpoint
