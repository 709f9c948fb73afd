// SPDX-License-Identifier: Apache-2.0
// Writes down which samples each step used: one JSON line per step that was kept.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/sampler.h"

namespace bellows::trainer {

/// A step that a rank works on.
struct UsedSamples {
  std::int64_t epoch = 0;  // of the world
  std::int64_t step = 0;   // counted from 1
  std::uint64_t pass = 0;
  Range batch;                     // positions in the pass, of the whole batch
  std::vector<std::uint64_t> ids;  // of this rank's share
};

class SampleRecord {
 public:
  /// Appends to PATH.PID; without a path all calls do nothing. Throws UsageError when the file
  /// cannot be written.
  explicit SampleRecord(const std::string& path);
  bool wanted() const { return file_ != nullptr; }
  void begin(UsedSamples used);
  /// The state is now that of `step`, made in `epoch`: writes what has begun if that was it. A rank
  /// whose own step failed has taken part when the others made the same one in the same world.
  void commit(std::int64_t step, std::int64_t epoch);

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::optional<UsedSamples> begun_;
};

}  // namespace bellows::trainer
