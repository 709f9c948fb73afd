// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGUSR1 ask for a checkpoint and an end at the next step boundary.
#pragma once

namespace bellows::trainer {

/// Takes over SIGTERM and SIGUSR1. A dead peer's socket and a file that grows beyond a limit become
/// error codes.
void catch_stop_signals();

/// The number of the signal that came to this rank, or 0.
int stop_signal();

/// If one has come, it comes once more: to the image of the process that follows this one.
void repeat_stop_signal();

}  // namespace bellows::trainer
