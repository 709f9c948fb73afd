// SPDX-License-Identifier: Apache-2.0
// A data set of made-up samples of any shape.
#pragma once

#include <cmath>
#include <utility>

#include "trainer/data/dataset.h"

namespace bellows::trainer {

/// Samples made of their number.
class FakeDataset : public Dataset {
 public:
  explicit FakeDataset(SampleShape shape) : shape_(std::move(shape)) {}
  SampleShape shape() const override { return shape_; }
  std::uint64_t size(Split) const override { return 40; }
  void read(Split, std::span<const std::uint64_t> ids, const SampleBuffers& out) const override {
    std::int64_t* target = out.targets;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (std::int64_t k = 0; k < shape_.input_size(); ++k) {
        const auto at = static_cast<std::int64_t>(i) * shape_.input_size() + k;
        if (shape_.tokens)
          out.tokens[at] =
              static_cast<std::int64_t>(ids[i] * 7 + static_cast<unsigned>(k)) % shape_.classes;
        else
          out.values[at] = std::sin(static_cast<float>(ids[i] * 31 + static_cast<unsigned>(k)));
      }
      for (std::int64_t k = 0; k < shape_.targets(); ++k)
        *target++ = static_cast<std::int64_t>(ids[i] + static_cast<unsigned>(k)) % shape_.classes;
    }
  }

 private:
  SampleShape shape_;
};

}  // namespace bellows::trainer
