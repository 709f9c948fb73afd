// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/image_dataset.h"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace bellows::trainer {

ImageDataset::ImageDataset(std::vector<std::int64_t> shape, std::int64_t classes, Images train,
                           Images test)
    : shape_{std::move(shape), false, classes}, train_(std::move(train)), test_(std::move(test)) {
  const auto image = static_cast<std::uint64_t>(shape_.input_size());
  for (const Images* split : {&train_, &test_})
    if (split->pixels.size() != split->labels.size() * image)
      throw std::invalid_argument("images and labels differ in number");

  const auto channels = static_cast<std::uint64_t>(shape_.input.at(0));
  const std::uint64_t plane = image / channels;
  std::vector<std::array<std::uint64_t, 256>> histogram(channels);
  const std::uint8_t* pixel = train_.pixels.data();
  for (std::uint64_t i = 0; i < train_.labels.size(); ++i)
    for (std::uint64_t c = 0; c < channels; ++c)
      for (std::uint64_t k = 0; k < plane; ++k) ++histogram[c][*pixel++];

  values_.resize(channels);
  for (std::uint64_t c = 0; c < channels; ++c) {
    double n = 0;
    double sum = 0;
    double squares = 0;
    for (int v = 0; v < 256; ++v) {
      const auto count = static_cast<double>(histogram[c][v]);
      n += count;
      sum += count * v;
      squares += count * v * v;
    }
    const double mean = n > 0 ? sum / n : 0;
    const double variance = n > 0 ? squares / n - mean * mean : 0;
    const double deviation = variance > 0 ? std::sqrt(variance) : 1;
    for (int v = 0; v < 256; ++v) values_[c][v] = static_cast<float>((v - mean) / deviation);
  }
}

void ImageDataset::read(Split split, std::span<const std::uint64_t> ids,
                        const SampleBuffers& out) const {
  const Images& from = images(split);
  const auto image = static_cast<std::uint64_t>(shape_.input_size());
  const std::uint64_t plane = image / values_.size();
  float* value = out.values;
  std::int64_t* target = out.targets;
  for (const std::uint64_t id : ids) {
    const std::uint8_t* pixel = from.pixels.data() + id * image;
    for (const auto& table : values_)
      for (std::uint64_t k = 0; k < plane; ++k) *value++ = table[*pixel++];
    *target++ = from.labels[id];
  }
}

}  // namespace bellows::trainer
