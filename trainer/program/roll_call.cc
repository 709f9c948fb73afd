// SPDX-License-Identifier: Apache-2.0
#include "trainer/program/roll_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

/// What is summed over the ranks: for each call how many make it and the sum of their numbers, then
/// the sums of `values` and of their squares.
constexpr std::size_t kWords = 2 * kCalls + 2;

constexpr const char* kDone[kCalls] = {"calls backward()",  "asks the loader for the next batch",
                                       "begins an epoch",   "calls sum()",
                                       "calls evaluated()", "has left the body of run()"};
constexpr const char* kDoneBySome[kCalls] = {
    "call backward()",  "ask the loader for the next batch", "begin an epoch", "call sum()",
    "call evaluated()", "have left the body of run()"};

std::string who_does_what(const double* words) {
  std::vector<std::string> parts;
  for (std::size_t call = 0; call < kCalls; ++call) {
    const double count = words[2 * call];
    if (count == 1)
      parts.push_back(fmt::format("rank {:.0f} {}", words[2 * call + 1], kDone[call]));
    else if (count > 1)
      parts.push_back(fmt::format("{:.0f} ranks {}", count, kDoneBySome[call]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void check(const double* words, int ranks, std::int64_t after) {
  std::string text;
  bool alike = false;
  for (std::size_t call = 0; call < kCalls; ++call) alike |= words[2 * call] == ranks;
  if (!alike) text = who_does_what(words);
  // Only equal numbers have so small a sum of squares.
  else if (words[2 * kCalls] * words[2 * kCalls] != ranks * words[2 * kCalls + 1])
    text = "the ranks give sum() different numbers of values";
  if (text.empty()) return;
  throw SharedError(
      kFailure,
      fmt::format("after step {}: {}; all ranks have to make the same calls in the same order",
                  after, text));
}

}  // namespace

c10::intrusive_ptr<c10d::Work> call_roll(Team& team, Call call, std::size_t values,
                                         std::int64_t after) {
  std::vector<double> words(kWords, 0);
  const auto place = 2 * static_cast<std::size_t>(call);
  words[place] = 1;
  words[place + 1] = team.rank();
  words[kWords - 2] = static_cast<double>(values);
  words[kWords - 1] = static_cast<double>(values) * static_cast<double>(values);
  return team.sum_and_check(torch::tensor(words, torch::kFloat64),
                            [ranks = team.size(), after](const torch::Tensor& sums) {
                              check(sums.const_data_ptr<double>(), ranks, after);
                            });
}

}  // namespace bellows::trainer
