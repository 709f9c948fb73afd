// SPDX-License-Identifier: Apache-2.0
// What the launcher has told this process of its place, before there is a world.
#pragma once

namespace bellows::trainer {

/// Whether one has started it that there can be a world with (PMIx), or it is to join one.
bool has_launcher();
/// Whether it is to be rank 0: the one that speaks for all.
bool is_first_process();
/// Its number among the ranks of its node; 0 where nothing is said.
int local_rank();

}  // namespace bellows::trainer
