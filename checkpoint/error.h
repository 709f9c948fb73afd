// SPDX-License-Identifier: Apache-2.0
// Why a checkpoint could not be written or was refused: one type, with the file, a category to act
// on, and advice for the person who reads it.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace bellows::checkpoint {

enum class Reason {
  kForeign,    ///< not a Bellows checkpoint at all
  kDamaged,    ///< was one; its content no longer matches its checksums
  kTruncated,  ///< was one; the file ends too early
  kTooNew,     ///< written in a format version that this program does not know
  kIo,         ///< the system refused: missing, no permission, read error, ...
  kNoSpace,    ///< disk full, quota or file size limit reached
};

/// "foreign", "damaged", "truncated", "too-new", "io", "no-space": stable, for scripts.
std::string_view reason_name(Reason reason);

/// what() is "FILE: detail" followed by "; advice" when there is one.
class Error : public std::runtime_error {
 public:
  Error(std::filesystem::path file, Reason reason, std::string detail, std::string advice = {});
  const std::filesystem::path& file() const { return file_; }
  Reason reason() const { return reason_; }
  const std::string& detail() const { return detail_; }
  const std::string& advice() const { return advice_; }
  /// True when the file itself is unusable (kForeign, kDamaged, kTruncated, kTooNew): an older one
  /// may serve. False when the system failed: trying the same file again may help.
  bool is_refusal() const { return reason_ != Reason::kIo && reason_ != Reason::kNoSpace; }

 private:
  std::filesystem::path file_;
  Reason reason_;
  std::string detail_;
  std::string advice_;
};

}  // namespace bellows::checkpoint
