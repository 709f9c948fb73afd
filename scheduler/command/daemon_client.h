// SPDX-License-Identifier: Apache-2.0
// Asks bellowsd, from any machine of the cluster.
#pragma once

#include <chrono>

#include "protocol/credential.h"
#include "protocol/message.h"
#include "scheduler/daemon/daemon_settings.h"

namespace bellows::scheduler {

/// Sends one request (`jobs`, `resize-nodes`) and waits for its answer. Throws NoAnswer when
/// bellowsd is not there or does not run as one of `settings.users`, Overdue when it does not
/// answer in time.
protocol::Message ask_daemon(const DaemonSettings& settings, protocol::Sealer& sealer,
                             const protocol::Message& request, std::chrono::milliseconds limit);

}  // namespace bellows::scheduler
