// SPDX-License-Identifier: Apache-2.0
// Plays the model of the step commit: every order of its actions (breadth first, so what goes wrong
// is shown in as few actions as possible), or many orders drawn by chance where there are too many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/unit/commit_model.h"

namespace bellows::commit_model {

struct Findings {
  std::size_t states = 0;   // different ones (all orders), or actions taken (by chance)
  std::size_t actions = 0;  // tried
  std::size_t ends = 0;     // states in which nothing of the protocol can happen any more
  std::string fault;        // empty: none. Else what, and all that led there, a line each
};

/// All orders. States are told apart by a 64-bit hash. Throws std::length_error at `limit` states.
Findings explore(const Shape& shape, std::size_t limit = 20'000'000);

/// `runs` orders, each to its end. Deaths and the like are drawn less often than the rest.
Findings sample(const Shape& shape, std::size_t runs, std::uint64_t seed);

/// Larger after every action of the model, and bounded by the shape: no order goes on for ever.
std::uint64_t progress(const State& state);

}  // namespace bellows::commit_model
