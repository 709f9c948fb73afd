// SPDX-License-Identifier: Apache-2.0
// What the launcher has told this process of its place, before there is a world.
#pragma once

#include <string>

namespace bellows::trainer {

/// Whether one has started it that there can be a world with (PMIx), or it is to join one.
bool has_launcher();
/// Whether it is to be rank 0: the one that speaks for all.
bool is_first_process();
/// Says on standard error why this process ends before it is in a world, which is mostly what all
/// of them find. The first one speaks at once. Others give it some seconds to do so and to end,
/// upon which the launcher ends them; who is still there speaks for itself.
void complain_before_world(const std::string& program, const std::string& text);
/// Of the machine it runs on.
std::string host_name();
/// Its number among the ranks of its node; 0 where nothing is said.
int local_rank();

}  // namespace bellows::trainer
