// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/text_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

class TextDataset : public Dataset {
 public:
  TextDataset(std::vector<std::uint8_t> bytes, std::int64_t length)
      : bytes_(std::move(bytes)), length_(static_cast<std::uint64_t>(length)) {
    const std::uint64_t windows = (bytes_.size() - 1) / length_;
    test_ = std::max<std::uint64_t>(1, windows / 10);
    train_ = windows - test_;
  }

  SampleShape shape() const override { return {{static_cast<std::int64_t>(length_)}, true, 256}; }
  std::uint64_t size(Split split) const override { return split == Split::kTrain ? train_ : test_; }
  void read(Split split, std::span<const std::uint64_t> ids,
            const SampleBuffers& out) const override {
    std::int64_t* token = out.tokens;
    std::int64_t* target = out.targets;
    for (const std::uint64_t id : ids) {
      const std::uint64_t window = split == Split::kTrain ? id : train_ + id;
      const std::uint8_t* from = bytes_.data() + window * length_;
      token = std::copy(from, from + length_, token);
      target = std::copy(from + 1, from + 1 + length_, target);
    }
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::uint64_t length_;
  std::uint64_t train_ = 0;
  std::uint64_t test_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> open_text_dataset(const std::string& path, std::int64_t length) {
  // A folder cannot be read, and a device may have no end.
  std::error_code failed;
  const auto type = std::filesystem::status(path, failed).type();
  if (type != std::filesystem::file_type::regular && type != std::filesystem::file_type::not_found)
    throw DataError(path + ": not a regular file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError(fmt::format("{}: {}", path, std::strerror(errno)));
  std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw DataError(fmt::format("{}: {}", path, std::strerror(errno)));
  if (bytes.size() < 2 * static_cast<std::uint64_t>(length) + 1)
    throw DataError(fmt::format("{}: {} bytes are too few for two windows of --length {}", path,
                                bytes.size(), length));
  return std::make_unique<TextDataset>(std::move(bytes), length);
}

}  // namespace bellows::trainer
