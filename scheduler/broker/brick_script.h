// SPDX-License-Identifier: Apache-2.0
// The script of a companion job: it holds the nodes, and ends by itself when the base has ended,
// whatever has become of everybody else.
#pragma once

#include <signal.h>

#include <chrono>
#include <string>

#include "scheduler/cluster/cluster.h"

namespace bellows::scheduler {

/// The signal at which the script ends at once. SIGTERM does not end it.
constexpr int kBrickEnd = SIGUSR1;

/// Looks every `interval` (and up to a fifth more, so that not all bricks ask at once) whether the
/// base runs, with no restart in between; a controller that does not answer is no reason to end.
/// Of a base that is suspended it waits `patience`: then its nodes are for others.
std::string brick_script(const JobView& base, std::chrono::seconds interval,
                         std::chrono::seconds patience);

/// The longest time limit, in whole minutes, with which a brick that starts now ends before the
/// base; 0 when there is none. A base without a limit: a year.
std::chrono::minutes brick_limit(const JobView& base, Time now);

}  // namespace bellows::scheduler
