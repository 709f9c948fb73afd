// SPDX-License-Identifier: Apache-2.0
// What a process that replaces itself leaves to its next image: the state and the course of the
// run.
#pragma once

#include "trainer/state/course.h"
#include "trainer/state/training_state.h"

namespace bellows::trainer {

/// Writes to an open file, from its start. `state` may be null or not complete: then it says so.
/// The state must not be updated meanwhile; forward and backward passes may go on. Throws
/// std::system_error.
void write_image(int file, TrainingState* state, const Course& course);

/// Takes what write_image wrote. False, with nothing changed, when there is no complete state in
/// it, when it is of another model, or when a byte is not as it was written.
bool read_image(int file, TrainingState& state, Course& course);

}  // namespace bellows::trainer
