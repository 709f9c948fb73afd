// SPDX-License-Identifier: Apache-2.0
// CIFAR-10, binary version: 32 x 32 colour images in ten classes.
#pragma once

#include <memory>
#include <string>

#include "trainer/data/dataset.h"

namespace bellows::trainer {

/// Opens data_batch_*.bin (at least one) and test_batch.bin in `directory`, or in its
/// subdirectory cifar-10-batches-bin. Throws DataError: missing files, a size that is no multiple
/// of a record (1 label, 3,072 pixels), labels out of range.
std::unique_ptr<Dataset> open_cifar10(const std::string& directory);

}  // namespace bellows::trainer
