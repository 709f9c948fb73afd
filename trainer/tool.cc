// SPDX-License-Identifier: Apache-2.0
#include "trainer/tool.h"

#include <fmt/format.h>

namespace bellows::trainer {
namespace po = boost::program_options;

po::variables_map parse_arguments(const std::vector<std::string>& arguments,
                                  const po::options_description& options,
                                  const po::positional_options_description& positional) {
  po::variables_map given;
  try {
    using namespace po::command_line_style;
    po::store(po::command_line_parser(arguments)
                  .options(options)
                  .positional(positional)
                  .style(unix_style & ~allow_guessing)
                  .run(),
              given);
    po::notify(given);
  } catch (const po::error& wrong) {
    throw UsageError(wrong.what());
  }
  return given;
}

int run_tool(const std::string& name, const std::function<int()>& work) {
  const auto complain = [&](const std::exception& e, ExitCode code) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return code;
  };
  try {
    return work();
  } catch (const UsageError& e) {
    return complain(e, kUsage);
  } catch (const std::exception& e) {
    return complain(e, kFailure);
  }
}

}  // namespace bellows::trainer
