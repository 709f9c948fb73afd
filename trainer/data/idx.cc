// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/idx.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

// zlib's gz functions read plain files as well.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_)
      throw DataError(fmt::format("{}: {}", path, std::strerror(errno != 0 ? errno : ENOMEM)));
    gzbuffer(file_.get(), 1 << 17);
  }

  std::uint64_t offset() const { return offset_; }

  // Reads at most `size` bytes; less only at the end of the file.
  std::uint64_t read(std::uint8_t* to, std::uint64_t size) {
    std::uint64_t done = 0;
    while (done < size) {
      const auto part = static_cast<unsigned>(std::min<std::uint64_t>(size - done, 1U << 30));
      const int got = gzread(file_.get(), to + done, part);
      check(got < 0);
      if (got <= 0) break;
      done += static_cast<std::uint64_t>(got);
    }
    offset_ += done;
    // A compressed file cut short reads as an early end; only its error code tells.
    if (done < size) check(false);
    return done;
  }

 private:
  void check(bool failed) {
    int code = Z_OK;
    const char* text = gzerror(file_.get(), &code);
    if (!failed && (code == Z_OK || code == Z_STREAM_END)) return;
    if (code == Z_BUF_ERROR)
      throw DataError(
          fmt::format("{}: truncated: the compressed data end too early, {} bytes "
                      "after decompression",
                      path_, offset_));
    throw DataError(fmt::format("{}: at offset {} after decompression: {}", path_, offset_,
                                code == Z_ERRNO ? std::strerror(errno) : text));
  }

  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::uint64_t offset_ = 0;
};

}  // namespace

Idx read_idx(const std::string& path, int dimensions) {
  Reader reader(path);
  std::array<std::uint8_t, 4> word{};
  const auto next = [&](const char* what) {
    const std::uint64_t at = reader.offset();
    if (reader.read(word.data(), word.size()) < word.size())
      throw DataError(fmt::format("{}: truncated: {} expected at offset {}", path, what, at));
  };

  next("the magic number");
  constexpr std::uint8_t kUnsignedByte = 0x08;
  if (word[0] != 0 || word[1] != 0 || word[2] != kUnsignedByte || word[3] != dimensions)
    throw DataError(
        fmt::format("{}: wrong magic {:02x}{:02x}{:02x}{:02x} at offset 0, expected 000008{:02x} "
                    "(idx, unsigned "
                    "bytes, {} dimension{})",
                    path, word[0], word[1], word[2], word[3], dimensions, dimensions,
                    dimensions == 1 ? "" : "s"));

  Idx idx;
  std::uint64_t total = 1;
  for (int d = 0; d < dimensions; ++d) {
    next("the size of a dimension");
    const std::uint32_t size = std::uint32_t{word[0]} << 24 | std::uint32_t{word[1]} << 16 |
                               std::uint32_t{word[2]} << 8 | word[3];
    // A damaged size must not make us ask for all the memory there is.
    constexpr std::uint64_t kLimit = std::uint64_t{1} << 40;
    if (size == 0 || total > kLimit / size)
      throw DataError(fmt::format("{}: size {} of dimension {} at offset {} makes no sense", path,
                                  size, d, reader.offset() - 4));
    idx.sizes.push_back(size);
    total *= size;
  }

  // Grows with what is really there.
  const std::uint64_t start = reader.offset();
  constexpr std::uint64_t kPart = std::uint64_t{16} << 20;
  while (idx.bytes.size() < total) {
    const std::uint64_t have = idx.bytes.size();
    const std::uint64_t part = std::min(kPart, total - have);
    idx.bytes.resize(have + part);
    const std::uint64_t got = reader.read(idx.bytes.data() + have, part);
    if (got < part)
      throw DataError(fmt::format("{}: truncated at offset {}: {} bytes of {} are there", path,
                                  reader.offset(), reader.offset() - start, total));
  }
  std::uint8_t extra = 0;
  if (reader.read(&extra, 1) != 0)
    throw DataError(fmt::format("{}: bytes left over at offset {}, behind the last element", path,
                                start + total));
  return idx;
}

}  // namespace bellows::trainer
