// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/saved_image.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <type_traits>
#include <vector>

#include "trainer/hash.h"
#include "trainer/state/flat_state.h"

namespace bellows::trainer {

namespace {

constexpr std::uint64_t kMagic = 0x31656c6c6577'4221;

struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t complete = 0;
  std::uint64_t size = 0;
  std::uint64_t hash = 0;  // of the state's bytes and of the course
  Course::Note course;
};
static_assert(std::is_trivially_copyable_v<Header>);

std::uint64_t seal(std::span<const std::byte> bytes, const Course::Note& course) {
  return mix64(hash_of(bytes), hash_of(std::as_bytes(std::span(&course, 1))));
}

void write_at(int file, std::size_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw std::system_error(errno, std::generic_category(), "saving the state");
    offset += static_cast<std::size_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

bool read_at(int file, std::size_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    offset += static_cast<std::size_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

void write_image(int file, TrainingState* state, const Course& course) {
  Header header;
  std::vector<std::byte> bytes;
  if (state != nullptr && state->complete) {
    const FlatState flat(*state);
    bytes.resize(flat.size());
    flat.read(0, bytes);
    header.complete = 1;
    header.size = bytes.size();
    header.course = course.note();
    header.hash = seal(bytes, header.course);
  }
  write_at(file, sizeof header, bytes);
  write_at(file, 0, std::as_bytes(std::span(&header, 1)));
}

bool read_image(int file, TrainingState& state, Course& course) {
  Header header;
  FlatState flat(state);
  if (!read_at(file, 0, std::as_writable_bytes(std::span(&header, 1))) || header.magic != kMagic ||
      header.complete == 0 || header.size != flat.size())
    return false;
  std::vector<std::byte> bytes(flat.size());
  if (!read_at(file, sizeof header, bytes) || seal(bytes, header.course) != header.hash)
    return false;
  flat.write(0, bytes);
  flat.finish();
  course.take(header.course);
  state.complete = true;
  return true;
}

}  // namespace bellows::trainer
