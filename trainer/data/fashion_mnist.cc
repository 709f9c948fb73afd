// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/fashion_mnist.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "trainer/data/idx.h"
#include "trainer/data/image_dataset.h"
#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

constexpr int kClasses = 10;

std::string find(const std::string& directory, const std::string& name) {
  const std::string plain = directory + "/" + name;
  if (std::filesystem::exists(plain)) return plain;
  if (std::filesystem::exists(plain + ".gz")) return plain + ".gz";
  throw DataError(plain + "[.gz]: no such file");
}

// `sizes` of one image: set by the first split, compared with the second.
Images read_split(const std::string& directory, const std::string& prefix,
                  std::pair<std::uint32_t, std::uint32_t>& sizes) {
  const std::string image_path = find(directory, prefix + "-images-idx3-ubyte");
  const std::string label_path = find(directory, prefix + "-labels-idx1-ubyte");
  Idx images = read_idx(image_path, 3);
  Idx labels = read_idx(label_path, 1);
  if (images.sizes[0] != labels.sizes[0])
    throw DataError(fmt::format("{}: {} images, but {} has {} labels", image_path, images.sizes[0],
                                label_path, labels.sizes[0]));
  const std::pair found{images.sizes[1], images.sizes[2]};
  if (sizes.first == 0) sizes = found;
  if (sizes != found)
    throw DataError(fmt::format("{}: images of {} x {}, but the training images have {} x {}",
                                image_path, found.first, found.second, sizes.first, sizes.second));
  constexpr std::uint64_t kHeader = 8;
  for (std::uint64_t i = 0; i < labels.bytes.size(); ++i)
    if (labels.bytes[i] >= kClasses)
      throw DataError(fmt::format("{}: label {} at offset {} is out of range 0 to {}", label_path,
                                  labels.bytes[i], kHeader + i, kClasses - 1));
  return {std::move(images.bytes), std::move(labels.bytes)};
}

}  // namespace

std::unique_ptr<Dataset> open_fashion_mnist(const std::string& directory) {
  std::pair<std::uint32_t, std::uint32_t> sizes{0, 0};
  Images train = read_split(directory, "train", sizes);
  Images test = read_split(directory, "t10k", sizes);
  return std::make_unique<ImageDataset>(std::vector<std::int64_t>{1, sizes.first, sizes.second},
                                        kClasses, std::move(train), std::move(test));
}

}  // namespace bellows::trainer
