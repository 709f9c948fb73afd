// SPDX-License-Identifier: Apache-2.0
// Images of bytes held in memory, as Fashion-MNIST and CIFAR-10 have them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/dataset.h"

namespace bellows::trainer {

/// One split: images are channels x height x width bytes, one after the other.
struct Images {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
};

/// Values are standardised: each channel has mean 0 and deviation 1 over the training split.
class ImageDataset : public Dataset {
 public:
  /// `shape` is {channels, height, width}; sizes must agree (checked).
  ImageDataset(std::vector<std::int64_t> shape, std::int64_t classes, Images train, Images test);
  SampleShape shape() const override { return shape_; }
  std::uint64_t size(Split split) const override { return images(split).labels.size(); }
  void read(Split split, std::span<const std::uint64_t> ids,
            const SampleBuffers& out) const override;

 private:
  const Images& images(Split split) const { return split == Split::kTrain ? train_ : test_; }
  SampleShape shape_;
  Images train_;
  Images test_;
  // Standardised value of each byte, by channel.
  std::vector<std::array<float, 256>> values_;
};

}  // namespace bellows::trainer
