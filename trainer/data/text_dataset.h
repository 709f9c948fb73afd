// SPDX-License-Identifier: Apache-2.0
// A text for a language model over bytes.
#pragma once

#include <memory>
#include <string>

#include "trainer/data/dataset.h"

namespace bellows::trainer {

/// Cuts `path` into windows of `length` bytes, each with the bytes that follow as targets; the
/// last tenth of the windows is the test split. The vocabulary is all 256 bytes. Throws DataError
/// when the file cannot be read or is shorter than two windows.
std::unique_ptr<Dataset> open_text_dataset(const std::string& path, std::int64_t length);

}  // namespace bellows::trainer
