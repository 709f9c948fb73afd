// SPDX-License-Identifier: Apache-2.0
// What the small tools (bellows-report, bellows-bench) do alike: read their options, complain, end.
#pragma once

#include <boost/program_options.hpp>
#include <functional>
#include <string>
#include <vector>

#include "trainer/errors.h"

namespace bellows::trainer {

/// Arguments by the table of `options`, into the variables that it names; those without a name by
/// `positional`. Nothing may be abbreviated. Throws UsageError.
boost::program_options::variables_map parse_arguments(
    const std::vector<std::string>& arguments,
    const boost::program_options::options_description& options,
    const boost::program_options::positional_options_description& positional = {});

/// What `work` returns. What it throws is told on standard error, after the name of the tool:
/// kUsage for a UsageError, else kFailure.
int run_tool(const std::string& name, const std::function<int()>& work);

}  // namespace bellows::trainer
