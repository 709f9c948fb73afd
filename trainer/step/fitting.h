// SPDX-License-Identifier: Apache-2.0
// Passes that fit into memory: a pass for which memory does not suffice is made again in smaller
// ones, and nobody else notices.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <span>

#include "trainer/step/gradients.h"
#include "trainer/step/passes.h"

namespace bellows::trainer {

/// Whether this is the error of libtorch's allocators (of the CPU or of a device), or of new.
bool is_out_of_memory(const std::exception& error);

/// The samples at once with which to try again after `micro_batch` did not fit: half as many, but
/// no more than half the share. Throws std::runtime_error naming `rank`, the sizes and the error
/// where that was one sample.
std::int64_t smaller_micro_batch(std::int64_t micro_batch, std::size_t share, int rank,
                                 const std::string& error);

/// Runs the passes of a rank's share as run_passes() does, after begin_step() and
/// reset_gradients(). When memory does not suffice the whole share is done again, with the same
/// samples, draws and buffers, and smaller passes. `reducer` may be null; otherwise its prepare()
/// is called by the passes' `before_last`. If it was the last pass that failed, what the reducer
/// has given away by then stays, since those gradients are whole, and it gives the rest from the
/// gradients that are made again.
///
/// Gives the micro-batch that fitted in the end. After a failure state.norms measures nothing that
/// counts. Throws what smaller_micro_batch() throws, and where passes of the ranks belong together
/// (state.model's batch_scope() has a team) std::runtime_error at the first failure.
std::int64_t run_fitting(const PassContext& context, int rank, Passes& passes,
                         GradientReducer* reducer);
/// The same for passes that are made for it, from begin_step() on.
std::int64_t run_fitting(const PassContext& context, int rank, std::span<const std::uint64_t> ids,
                         const Cut& cut, double weight,
                         const std::function<void(const Sums&)>& before_last,
                         GradientReducer* reducer);

}  // namespace bellows::trainer
