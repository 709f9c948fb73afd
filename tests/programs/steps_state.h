// SPDX-License-Identifier: Apache-2.0
// The state of elastic_steps: a vector that each step moves on by the sum over a batch of integers,
// so that what it holds after a step is known, whoever took part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace bellows::steps {

/// The content is not what it should be after its step.
struct WrongContent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// At any moment (but within an Update) one whole committed step, or nothing.
struct State {
  std::int64_t step = -1;  // -1: none yet, as in a joiner
  std::vector<double> values;
  bool ending = false;  // this step is the last
};

/// Step 0, of so many bytes.
State first_state(std::int64_t bytes);

/// What the samples [first, last) of a step's `batch` add to each element: to be summed over the
/// ranks' shares. All are integers, and so are the sums: exact in any order.
void share_of_step(std::int64_t step, std::int64_t batch, std::int64_t first, std::int64_t last,
                   double* elements, std::size_t count);

/// Moves on by one step, whose sums these are. Depends on the order of the steps: one that is
/// missing or done twice is seen for ever.
void apply_step(State& state, const double* sums);

/// Does all steps' sums again, without the ranks. Throws WrongContent.
void check_content(const State& state, std::int64_t batch);
std::uint64_t checksum(const State& state);

/// To and from an open file, for a new image of the process. Throw std::system_error.
void save(const State& state, int file);
State restore(int file);

}  // namespace bellows::steps
