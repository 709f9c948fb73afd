// SPDX-License-Identifier: Apache-2.0
// A folder of checkpoints of one run.
#include "checkpoint/store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "checkpoint/disk.h"
#include "checkpoint/timestamp.h"

namespace bellows::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kSuffix = ".h5";

bool is_checkpoint_name(const std::string& name) {
  return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

// Names of the folder's entries; none when there is no folder.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error))
    names.push_back(entries->path().filename().string());
  if (error) throw system_error(folder, "cannot list the folder", error.value());
  std::ranges::sort(names);
  return names;
}

// Clocks go back, and differ between nodes: a new checkpoint is later than all there are.
std::string later_than(const std::string& newest) {
  const std::string now = current_time();
  const auto micros = parse_timestamp(newest);
  return micros && newest >= now ? timestamp(*micros + 1) : now;
}

}  // namespace

Store::Store(fs::path folder, Options options) : folder_(std::move(folder)), options_(options) {
  if (options_.keep < 0) throw std::invalid_argument("checkpoint keep count is negative");
}

fs::path Store::file_of(std::int64_t step) const {
  std::string digits = std::to_string(step);
  if (digits.size() < 12 && step >= 0) digits.insert(0, 12 - digits.size(), '0');
  return folder_ / (kPrefix + digits + kSuffix);
}

std::vector<Store::Entry> Store::list(const OnRefused& on_refused) const {
  std::vector<Entry> entries;
  for (const std::string& name : names_in(folder_)) {
    if (!is_checkpoint_name(name)) continue;
    try {
      entries.push_back({folder_ / name, peek(folder_ / name)});
    } catch (const Error& error) {
      if (on_refused) on_refused(error);
    }
  }
  std::ranges::stable_sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.info.created, a.info.step) > std::pair(b.info.created, b.info.step);
  });
  return entries;
}

void Store::prepare() const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw system_error(folder_, "cannot make the folder", error.value());
  if (access(folder_.c_str(), W_OK | X_OK) != 0)
    throw system_error(folder_, "cannot write into the folder", errno);
}

Store::Entry Store::save(const State& state, std::int64_t step) {
  prepare();
  clean();
  const std::vector<Entry> entries = list();
  const std::string newest = entries.empty() ? std::string() : entries.front().info.created;
  const fs::path file = file_of(step);
  const Entry saved{file, write(file, state, step, later_than(newest))};
  remove_old(saved.file);
  return saved;
}

void Store::remove_old(const fs::path& saved) const {
  if (options_.keep == 0) return;
  const std::vector<Entry> entries = list();
  int others = options_.keep - 1;
  for (const Entry& entry : entries) {
    if (entry.file == saved || others-- > 0) continue;
    std::error_code error;
    fs::remove(entry.file, error);  // what cannot be removed stays: not worth failing a save
  }
}

std::optional<Contents> Store::newest_good(const OnRefused& on_refused) const {
  for (const Entry& entry : list(on_refused)) {
    try {
      return read(entry.file);
    } catch (const Error& error) {
      if (on_refused) on_refused(error);
    }
  }
  return std::nullopt;
}

int Store::clean() const {
  int removed = 0;
  for (const std::string& name : names_in(folder_))
    if (is_temporary_name(name, kPrefix) && remove_if_abandoned(folder_ / name)) ++removed;
  return removed;
}

}  // namespace bellows::checkpoint
