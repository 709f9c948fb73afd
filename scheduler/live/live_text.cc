// SPDX-License-Identifier: Apache-2.0
#include "scheduler/live/live_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <numeric>

#include "scheduler/command/status_text.h"

namespace bellows::scheduler {
namespace {

enum Field {
  kJob,
  kNodes,
  kRanks,
  kState,
  kStep,
  kSpeed,
  kEfficiency,
  kBatch,
  kRate,
  kBest,
  kEvent
};
struct Column {
  Field field;
  const char* title;
  bool right;
};
constexpr std::array kColumns = {
    Column{kJob, "JOB", false},          Column{kNodes, "NODES", true},
    Column{kRanks, "RANKS", true},       Column{kState, "STATE", false},
    Column{kStep, "STEP", true},         Column{kSpeed, "SAMPLES/S", true},
    Column{kEfficiency, "EFF", true},    Column{kBatch, "BATCH", true},
    Column{kRate, "LR", true},           Column{kBest, "BEST", false},
    Column{kEvent, "LAST EVENT", false},
};
// The first goes first.
constexpr std::array kDropped = {kBest,  kRate, kBatch, kEfficiency, kEvent,
                                 kNodes, kStep, kSpeed, kState};
constexpr std::size_t kLeastEvent = 16;
constexpr std::size_t kGap = 2;
constexpr const char* kUnknown = "-";

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Characters, where each is one wide.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !continues(c); }));
}

std::string cut(const std::string& text, std::size_t most) {
  if (width(text) <= most) return text;
  std::string part;
  std::size_t characters = 0;
  for (const char c : text) {
    if (!continues(c) && ++characters > most) break;
    part += c;
  }
  return part;
}

std::string format(const char* how, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), how, value);
  return text.data();
}

std::string whole(const std::optional<std::int64_t>& number) {
  return number ? std::to_string(*number) : kUnknown;
}

std::string ago(double seconds) {
  if (!(seconds >= 0)) return "now";
  if (seconds < 60) return format("%.0fs", std::floor(seconds));
  if (seconds < 3600) return format("%.0fm", std::floor(seconds / 60));
  if (seconds < 86'400) return format("%.0fh", std::floor(seconds / 3600));
  return seconds < 1e9 ? format("%.0fd", std::floor(seconds / 86'400)) : kUnknown;
}

std::string cell(const LiveJob& job, Field field, double now) {
  switch (field) {
    case kJob:
      return printable(job.job);
    case kNodes:
      return whole(job.nodes);
    case kRanks:
      return whole(job.ranks);
    case kState:
      return job.state.empty() ? kUnknown : printable(job.state);
    case kStep:
      return whole(job.step);
    case kSpeed:
      if (!job.samples_per_second) return kUnknown;
      return format(*job.samples_per_second < 100 ? "%.1f" : "%.0f", *job.samples_per_second);
    case kEfficiency:
      return job.efficiency ? format("%.0f%%", 100 * *job.efficiency) : kUnknown;
    case kBatch:
      return whole(job.batch);
    case kRate:
      return job.learning_rate ? format("%.3g", *job.learning_rate) : kUnknown;
    case kBest:
      return best_size(job.best_nodes, job.economic_nodes);
    case kEvent:
      if (!job.problem.empty() && (job.state != "ended" || job.event_kind.empty())) {
        return printable(job.problem);
      }
      if (job.event_kind.empty()) return kUnknown;
      return printable(job.event_kind) + ' ' + ago(now - job.event_time.value_or(now)) + ": " +
             printable(job.event_text);
  }
  return kUnknown;
}

std::string heading(const LiveRound& round) {
  std::array<char, 32> clock{};
  const auto when = static_cast<std::time_t>(round.time);
  std::tm parts{};
  if (localtime_r(&when, &parts) == nullptr ||
      std::strftime(clock.data(), clock.size(), "%T", &parts) == 0) {
    clock[0] = '\0';
  }
  std::int64_t nodes = 0, ranks = 0;
  for (const LiveJob& job : round.jobs) {
    if (job.state == "ended") continue;
    nodes += job.nodes.value_or(0);
    ranks += job.ranks.value_or(0);
  }
  return std::string(clock.data()) + "  " + std::to_string(round.jobs.size()) +
         (round.jobs.size() == 1 ? " job, " : " jobs, ") + std::to_string(nodes) + " nodes, " +
         std::to_string(ranks) + " ranks";
}

using Row = std::vector<std::string>;

void keep_what_fits(std::vector<std::size_t>& shown, std::vector<std::size_t>& widths,
                    std::size_t columns) {
  const auto total = [&] {
    return std::accumulate(shown.begin(), shown.end(), std::size_t{0},
                           [&](std::size_t sum, std::size_t c) { return sum + widths[c] + kGap; }) -
           kGap;
  };
  const auto shrink_event = [&] {
    const std::size_t over = total() > columns ? total() - columns : 0;
    widths[kEvent] -= std::min(over, widths[kEvent] - std::min(widths[kEvent], kLeastEvent));
  };
  for (const Field dropped : kDropped) {
    shrink_event();
    if (total() <= columns) return;
    std::erase(shown, static_cast<std::size_t>(dropped));
  }
}

}  // namespace

std::vector<std::string> live_text(const LiveRound& round, const TextSize& size) {
  std::vector<std::string> lines = {heading(round)};
  for (const std::string& note : round.notes) lines.push_back(printable(note));
  std::vector<Row> rows = {Row{}};
  for (const Column& column : kColumns) rows[0].emplace_back(column.title);
  for (const LiveJob& job : round.jobs) {
    Row& row = rows.emplace_back();
    for (const Column& column : kColumns) row.push_back(cell(job, column.field, round.time));
  }
  std::vector<std::size_t> widths, shown;
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    const bool hints = std::ranges::any_of(
        round.jobs, [](const LiveJob& job) { return job.best_nodes.has_value(); });
    if (kColumns[c].field != kBest || hints) shown.push_back(c);
    widths.push_back(0);
    for (const Row& row : rows) widths[c] = std::max(widths[c], width(row[c]));
  }
  if (size.columns) keep_what_fits(shown, widths, *size.columns);
  for (const Row& row : rows) {
    std::string line;
    for (const std::size_t c : shown) {
      const std::string text = cut(row[c], widths[c]);
      const std::string padding(widths[c] - width(text), ' ');
      if (c != shown.front()) line += std::string(kGap, ' ');
      line += kColumns[c].right ? padding + text : text + (c == shown.back() ? "" : padding);
    }
    while (line.ends_with(' ')) line.pop_back();
    lines.push_back(std::move(line));
  }
  if (size.lines && lines.size() > *size.lines && *size.lines > 0) {
    const std::size_t hidden = lines.size() - *size.lines + 1;
    lines.resize(*size.lines - 1);
    lines.push_back("(" + std::to_string(std::min(hidden, round.jobs.size())) + " more)");
  }
  if (size.columns) {
    for (std::string& line : lines) line = cut(line, *size.columns);
  }
  return lines;
}

}  // namespace bellows::scheduler
