// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/cifar10.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "trainer/data/image_dataset.h"
#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

constexpr int kClasses = 10;
constexpr std::uint64_t kPixels = 3 * 32 * 32;
constexpr std::uint64_t kRecord = 1 + kPixels;

void append(const std::string& path, Images& images) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError(fmt::format("{}: {}", path, std::strerror(errno)));
  std::vector<std::uint8_t> record(kRecord);
  for (std::uint64_t offset = 0;; offset += kRecord) {
    file.read(reinterpret_cast<char*>(record.data()), kRecord);
    const auto got = static_cast<std::uint64_t>(file.gcount());
    if (got == 0 && offset > 0) return;
    if (got < kRecord)
      throw DataError(fmt::format("{}: truncated: the record at offset {} has {} bytes of {}", path,
                                  offset, got, kRecord));
    if (record[0] >= kClasses)
      throw DataError(fmt::format("{}: label {} at offset {} is out of range 0 to {}", path,
                                  record[0], offset, kClasses - 1));
    images.labels.push_back(record[0]);
    images.pixels.insert(images.pixels.end(), record.begin() + 1, record.end());
  }
}

}  // namespace

std::unique_ptr<Dataset> open_cifar10(const std::string& directory) {
  std::string folder = directory;
  if (std::filesystem::exists(folder + "/cifar-10-batches-bin")) folder += "/cifar-10-batches-bin";
  Images train;
  for (int batch = 1; batch <= 5; ++batch) {
    const std::string path = fmt::format("{}/data_batch_{}.bin", folder, batch);
    if (batch == 1 || std::filesystem::exists(path)) append(path, train);
  }
  Images test;
  append(folder + "/test_batch.bin", test);
  return std::make_unique<ImageDataset>(std::vector<std::int64_t>{3, 32, 32}, kClasses,
                                        std::move(train), std::move(test));
}

}  // namespace bellows::trainer
