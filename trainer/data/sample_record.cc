// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/sample_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "trainer/errors.h"

namespace bellows::trainer {

SampleRecord::SampleRecord(const std::string& path) {
  if (path.empty()) return;
  const std::string own = fmt::format("{}.{}", path, getpid());
  file_.reset(std::fopen(own.c_str(), "a"));
  if (!file_) throw UsageError(fmt::format("--record-samples {}: {}", own, std::strerror(errno)));
}

void SampleRecord::begin(UsedSamples used) {
  if (file_) begun_ = std::move(used);
}

void SampleRecord::commit(std::int64_t step, std::int64_t epoch) {
  const auto used = std::exchange(begun_, std::nullopt);
  if (!used || used->step != step || used->epoch != epoch) return;
  fmt::print(file_.get(),
             "{{\"epoch\":{},\"step\":{},\"pass\":{},\"batch\":[{},{}],\"ids\":[{}]}}\n",
             used->epoch, used->step, used->pass, used->batch.begin, used->batch.end,
             fmt::join(used->ids, ","));
  std::fflush(file_.get());
}

}  // namespace bellows::trainer
