// SPDX-License-Identifier: Apache-2.0
// The commands of bellows-ckpt. Each prints to standard output and gives the exit status; what the
// system or a file's state makes impossible is thrown as Error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/values.h"

namespace bellows::checkpoint {

using Paths = std::vector<std::filesystem::path>;

/// 0; 1 when a path named has nothing to list.
int list_command(const Paths& paths, bool json);
/// Summary of the file, or of the tensors named with up to `values` of their elements each.
int show_command(const std::filesystem::path& file, const std::vector<std::string>& tensors,
                 std::int64_t values, bool json);
/// 0 when all are good, else 1.
int verify_command(const Paths& paths, bool json);

struct DiffOptions {
  Tolerance tolerance;
  std::vector<std::string> only;    ///< prefixes of paths; empty: all
  std::vector<std::string> ignore;  ///< prefixes of paths
  bool json = false;
};
/// 0 when nothing differs beyond the tolerance, else 1.
int diff_command(const std::filesystem::path& first, const std::filesystem::path& second,
                 const DiffOptions& options);

}  // namespace bellows::checkpoint
