// SPDX-License-Identifier: Apache-2.0
// A resize request that srun was given, handed on to the program `bellows`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bellows::spank {

struct ResizeRequest {
  std::string program;  ///< a path, or a name to be looked for in PATH
  std::uint32_t job = 0;
  std::string nodes;  ///< as parse_resize returns it
  int wait = 0;       ///< seconds; 0: only until it is granted
};

/// The command that carries it out.
std::vector<std::string> command_of(const ResizeRequest& request);

struct ResizeOutcome {
  int code = 0;         ///< the program's exit code; 128 + signal where one ended it
  std::string problem;  ///< why it could not be started or was given up; the code is 1 then
};

/// Runs the program, without a shell and with /dev/null for its input, and waits for its end: at
/// most the request's own time and a minute.
ResizeOutcome run_resize(const ResizeRequest& request);

/// The program `bellows` that was installed, or built, together with the plugin at `plugin`; just
/// "bellows" if there is none.
std::string bellows_beside(const std::string& plugin);

}  // namespace bellows::spank
