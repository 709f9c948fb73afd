// SPDX-License-Identifier: Apache-2.0
// Why a checkpoint could not be written or was refused.
#include "checkpoint/error.h"

#include <utility>

namespace bellows::checkpoint {
namespace {

std::string sentence(const std::filesystem::path& file, const std::string& detail,
                     const std::string& advice) {
  std::string text = file.string() + ": " + detail;
  if (!advice.empty()) text += "; " + advice;
  return text;
}

}  // namespace

std::string_view reason_name(Reason reason) {
  switch (reason) {
    case Reason::kForeign:
      return "foreign";
    case Reason::kDamaged:
      return "damaged";
    case Reason::kTruncated:
      return "truncated";
    case Reason::kTooNew:
      return "too-new";
    case Reason::kIo:
      return "io";
    case Reason::kNoSpace:
      return "no-space";
  }
  return "io";
}

Error::Error(std::filesystem::path file, Reason reason, std::string detail, std::string advice)
    : std::runtime_error(sentence(file, detail, advice)),
      file_(std::move(file)),
      reason_(reason),
      detail_(std::move(detail)),
      advice_(std::move(advice)) {}

}  // namespace bellows::checkpoint
