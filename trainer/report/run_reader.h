// SPDX-License-Identifier: Apache-2.0
// Reads what a run leaves.
#pragma once

#include <string>

#include "trainer/errors.h"
#include "trainer/report/run.h"

namespace bellows::report {

/// Nothing can be read from there. `what()` names the file and the reason.
class UnreadableRun : public trainer::UsageError {
  using UsageError::UsageError;
};

/// `path`: a file with JSON lines of bellows-train --metrics or bellows-run --events, or a folder
/// with such files (*.jsonl). Lines that are damaged, as a job that was killed leaves them, are
/// left out and named in the notes, and so are earlier trainings that the same file holds.
Run read_run(const std::string& path);

}  // namespace bellows::report
