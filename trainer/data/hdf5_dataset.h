// SPDX-License-Identifier: Apache-2.0
// Samples in an HDF5 file of the user's own.
#pragma once

#include <memory>
#include <string>

#include "trainer/data/dataset.h"

namespace bellows::trainer {

/// Opens datasets x (samples first; any numbers, read as float; 1 to 3 further dimensions, two
/// meaning height x width) and y (one whole number per sample, the class) in `path`. The test
/// split is x_test and y_test; without them, the last tenth of x and y. Bytes (uint8) are scaled
/// to [0, 1]. Small files are held in memory, large ones are read sample by sample. Throws
/// DataError: no HDF5 file, a missing dataset, sizes that disagree, labels that are negative.
std::unique_ptr<Dataset> open_hdf5_dataset(const std::string& path);

}  // namespace bellows::trainer
