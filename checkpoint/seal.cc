// SPDX-License-Identifier: Apache-2.0
// The first 512 bytes of a checkpoint.
#include "checkpoint/seal.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "checkpoint/digest.h"

namespace bellows::checkpoint {
namespace {

constexpr std::string_view kMagic = "bellows-checkpoint ";
constexpr std::string_view kHdf5Signature{"\x89HDF\r\n\x1a\n", 8};
constexpr std::string_view kCrcKey = "\ncrc32 ";
constexpr const char* kAdvice = "restore it from a copy, or use an older checkpoint";

std::string hex(std::uint64_t value, int digits) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%0*llx", digits, static_cast<unsigned long long>(value));
  return text.data();
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class T>
std::optional<T> number(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Takes "KEY VALUE\n" off the front; nullopt when it is not there.
std::optional<std::string_view> take_line(std::string_view& text, std::string_view key) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(key) || end <= key.size() ||
      text[key.size()] != ' ')
    return std::nullopt;
  const std::string_view value = text.substr(key.size() + 1, end - key.size() - 1);
  text.remove_prefix(end + 1);
  return value;
}

// The text up to and with the line before crc32, when the checksum fits it.
std::optional<std::string_view> checked_text(std::string_view block) {
  const std::size_t at = block.rfind(kCrcKey);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view text = block.substr(0, at + 1);
  const std::string line = std::string(kCrcKey.substr(1)) + hex(crc32_of(as_bytes(text)), 8) + "\n";
  const std::string_view tail = block.substr(at + 1);
  if (!tail.starts_with(line) ||
      tail.find_first_not_of('\0', line.size()) != std::string_view::npos)
    return std::nullopt;
  return text;
}

std::optional<Seal> parse_version_1(std::string_view text) {
  take_line(text, "bellows-checkpoint");
  const auto step = take_line(text, "step");
  const auto created = take_line(text, "created");
  const auto size = take_line(text, "size");
  const auto hash = take_line(text, "xxh64");
  if (!step || !created || !size || !hash || !text.empty()) return std::nullopt;
  const auto step_number = number<std::int64_t>(*step);
  const auto size_number = number<std::uint64_t>(*size);
  const auto hash_number = number<std::uint64_t>(*hash, 16);
  if (!step_number || !size_number || !hash_number) return std::nullopt;
  return Seal{{1, *step_number, std::string(*created), *size_number}, *hash_number};
}

[[noreturn]] void refuse_without_magic(const std::filesystem::path& file, std::string_view block,
                                       std::uint64_t file_size) {
  if (file_size == 0) throw Error(file, Reason::kTruncated, "the file is empty", kAdvice);
  if (block.size() >= kSealSize && block.substr(kSealSize).starts_with(kHdf5Signature))
    throw Error(file, Reason::kDamaged, "its first 512 bytes are destroyed or were never completed",
                kAdvice);
  if (block.starts_with(kHdf5Signature))
    throw Error(file, Reason::kForeign, "an HDF5 file, but not a Bellows checkpoint",
                "checkpoints begin with the line 'bellows-checkpoint'");
  throw Error(file, Reason::kForeign, "not a Bellows checkpoint");
}

}  // namespace

std::array<std::byte, kSealSize> encode_seal(const Seal& seal) {
  std::string text = std::string(kMagic) + std::to_string(seal.info.format_version) + "\nstep " +
                     std::to_string(seal.info.step) + "\ncreated " + seal.info.created + "\nsize " +
                     std::to_string(seal.info.size) + "\nxxh64 " + hex(seal.xxh64, 16) + "\n";
  text += std::string(kCrcKey.substr(1)) + hex(crc32_of(as_bytes(text)), 8) + "\n";
  std::array<std::byte, kSealSize> block{};
  if (text.size() > block.size()) throw std::invalid_argument("checkpoint seal too long");
  std::memcpy(block.data(), text.data(), text.size());
  return block;
}

Seal decode_seal(const std::filesystem::path& file, std::span<const std::byte> head,
                 std::uint64_t file_size) {
  const std::string_view block(reinterpret_cast<const char*>(head.data()), head.size());
  if (!block.starts_with(kMagic)) {
    if (!block.empty() && block.size() < kMagic.size() && kMagic.starts_with(block))
      throw Error(file, Reason::kTruncated, "ends within its first line", kAdvice);
    refuse_without_magic(file, block, file_size);
  }
  if (block.size() < kSealSize)
    throw Error(file, Reason::kTruncated,
                "has " + std::to_string(file_size) + " bytes, too few for any checkpoint", kAdvice);
  const auto text = checked_text(block.substr(0, kSealSize));
  if (!text)
    throw Error(file, Reason::kDamaged, "the checksum of its first 512 bytes does not match",
                kAdvice);
  std::string_view first = *text;
  const auto version = number<int>(take_line(first, "bellows-checkpoint").value_or(""));
  if (version && *version > kFormatVersion)
    throw Error(file, Reason::kTooNew,
                "is of format version " + std::to_string(*version) + ", this program knows up to " +
                    std::to_string(kFormatVersion),
                "use a newer release of Bellows");
  const auto seal = version == 1 ? parse_version_1(*text) : std::nullopt;
  // The same seal has one spelling only, so a second look at every byte costs nothing.
  if (!seal || !std::ranges::equal(encode_seal(*seal), head.subspan(0, kSealSize)))
    throw Error(file, Reason::kDamaged, "its first 512 bytes make no sense", kAdvice);
  if (file_size < seal->info.size)
    throw Error(file, Reason::kTruncated,
                "has " + std::to_string(file_size) + " bytes of " + std::to_string(seal->info.size),
                kAdvice);
  if (file_size > seal->info.size)
    throw Error(file, Reason::kDamaged,
                "has " + std::to_string(file_size - seal->info.size) + " bytes too many", kAdvice);
  return *seal;
}

}  // namespace bellows::checkpoint
