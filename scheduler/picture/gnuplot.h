// SPDX-License-Identifier: Apache-2.0
// Plots by gnuplot, as a process of its own.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace bellows::scheduler {

/// What gnuplot prints for this script. Throws std::runtime_error: it is not installed, it says
/// that something is wrong, it is not done within the limit.
std::string run_gnuplot(const std::string& script,
                        std::chrono::milliseconds limit = std::chrono::seconds(60));

/// As a string of gnuplot's, in which nothing has a meaning; control characters become "?".
std::string gnuplot_string(std::string_view text);

}  // namespace bellows::scheduler
