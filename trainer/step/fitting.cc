// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/fitting.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#include "trainer/torch_error.h"

namespace bellows::trainer {

constexpr char kAllocator[] = "DefaultCPUAllocator: can't allocate memory";

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  // Of the CPU's allocator, also where an exported network's interpreter has wrapped it.
  return std::string(error.what()).find(kAllocator) != std::string::npos;
}

namespace {

/// The line that says so: an exported network's interpreter has others before it.
std::string memory_line_of(const std::exception& error) {
  std::istringstream lines(text_of(error));
  for (std::string line; std::getline(lines, line);)
    if (line.find(kAllocator) != std::string::npos) return line;
  return first_line_of(error);
}

}  // namespace

std::int64_t smaller_micro_batch(std::int64_t micro_batch, std::size_t share, int rank,
                                 const std::string& error) {
  const std::int64_t used = std::min(micro_batch, static_cast<std::int64_t>(share));
  if (used > 1) return used / 2;
  throw std::runtime_error(
      fmt::format("rank {}: out of memory with a single sample at once, of {} of its share: {}; "
                  "the model or its samples are too large for this device",
                  rank, share, error));
}

std::int64_t run_fitting(const PassContext& context, int rank, Passes& passes,
                         GradientReducer* reducer) {
  TrainingState& state = context.state;
  while (true) {
    std::string error;
    try {
      run_passes(context, passes);
    } catch (const std::exception& e) {
      if (!is_out_of_memory(e)) throw;
      error = memory_line_of(e);
    }
    // Memory is free from here on: neither the passes nor their error are any more.
    if (error.empty()) break;
    Cut cut = passes.cut();
    if (state.model->batch_scope().team)
      throw std::runtime_error(fmt::format(
          "rank {}: out of memory with {} samples at once: {}; with --batch-norm sync all ranks "
          "make their passes together, so use a smaller --micro-batch",
          rank, std::min(cut.micro_batch, static_cast<std::int64_t>(passes.share())), error));
    cut.micro_batch = smaller_micro_batch(cut.micro_batch, passes.share(), rank, error);
    if (state.norms) state.norms->spoil();
    // The others count on the gradients of a last pass that has begun.
    if (passes.told() && reducer != nullptr) reducer->interrupt();
    state.begin_step();
    reset_gradients(state);
    passes.begin(cut);
  }
  if (reducer != nullptr) reducer->finish();
  return passes.cut().micro_batch;
}

std::int64_t run_fitting(const PassContext& context, int rank, std::span<const std::uint64_t> ids,
                         const Cut& cut, double weight,
                         const std::function<void(const Sums&)>& before_last,
                         GradientReducer* reducer) {
  context.state.begin_step();
  reset_gradients(context.state);
  Passes passes(context.state, context.clock, {ids.begin(), ids.end()}, cut, weight, before_last);
  return run_fitting(context, rank, passes, reducer);
}

}  // namespace bellows::trainer
