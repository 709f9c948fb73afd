// SPDX-License-Identifier: Apache-2.0
// Fashion-MNIST (and MNIST, which has the same files): 28 x 28 grey images in ten classes.
#pragma once

#include <memory>
#include <string>

#include "trainer/data/dataset.h"

namespace bellows::trainer {

/// Opens train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
/// t10k-labels-idx1-ubyte in `directory`, each with or without .gz. Throws DataError: missing or
/// bad files, numbers of images and labels that differ, labels out of range.
std::unique_ptr<Dataset> open_fashion_mnist(const std::string& directory);

}  // namespace bellows::trainer
