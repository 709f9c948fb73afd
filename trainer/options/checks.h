// SPDX-License-Identifier: Apache-2.0
// Whether options make sense, each and together. All throw UsageError.
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "trainer/options/options.h"

namespace bellows::trainer {

/// More than there will ever be of anything that is counted.
inline constexpr std::int64_t kMany = std::int64_t{1} << 40;

void require(bool good, const std::string& message);

/// What bellows-train makes itself: network, data, optimizer. Sets --lr where it was not `given`.
void check_network(Options& o, const boost::program_options::variables_map& given);
/// All else. Sets --passes where there is no limit.
void check(Options& o, const boost::program_options::variables_map& given);

}  // namespace bellows::trainer
