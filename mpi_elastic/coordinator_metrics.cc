// SPDX-License-Identifier: Apache-2.0
// How fast the program is, and what Prometheus is told: by HTTP (--metrics), by a file
// (--metrics-file).
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json.hpp>

#include "mpi_elastic/coordinator.h"
#include "protocol/metrics_text.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

// Before that a world's speed is that of warming up.
constexpr auto kLasted = std::chrono::seconds(5);
constexpr auto kMetricsPause = std::chrono::seconds(5);

std::optional<double> real(const json::object& head, const char* name) {
  const json::value* value = head.if_contains(name);
  return value != nullptr ? std::optional(value->to_number<double>()) : std::nullopt;
}

}  // namespace

// What peers of an older version do not say is not known.
void Coordinator::note_progress(RankInfo& rank, const Message& message) {
  const json::object& head = message.head;
  rank.batch.reset();
  if (head.contains("batch")) rank.batch = message.number("batch");
  rank.learning_rate = real(head, "learning_rate");
  const WorldSpec* world = membership_.newest();
  if (rank.rank != 0 || world == nullptr || phase_ != Phase::steady) return;
  // The speed may still be that of the last world.
  if (head.contains("epoch") && message.number("epoch") != world->epoch) return;
  if (Clock::now() - stood_at_ < kLasted) return;
  best_speed_per_rank_ =
      std::max(best_speed_per_rank_, rank.samples_per_second / static_cast<double>(world->size()));
}

std::optional<double> Coordinator::efficiency(double samples_per_second) const {
  const WorldSpec* world = membership_.newest();
  if (world == nullptr || best_speed_per_rank_ <= 0 || samples_per_second <= 0) return std::nullopt;
  const double per_rank = samples_per_second / static_cast<double>(world->size());
  return std::min(1.0, per_rank / best_speed_per_rank_);
}

void Coordinator::open_metrics() {
  if (options_.metrics) {
    try {
      metrics_server_ = std::make_unique<protocol::MetricsServer>(
          io_, *options_.metrics, [this] { return metrics_text(); });
      spdlog::info("metrics at {}", metrics_server_->url());
    } catch (const std::runtime_error& failed) {
      if (!left_) throw std::runtime_error(std::string("--metrics: ") + failed.what());
      spdlog::warn("--metrics: {}", failed.what());  // a job that runs is worth more
    }
  }
  if (options_.metrics_file.empty()) return;
  try {
    protocol::write_metrics_file(options_.metrics_file, metrics_text());
  } catch (const std::runtime_error& failed) {
    if (!left_) throw std::runtime_error(std::string("--metrics-file: ") + failed.what());
  }
  await_metrics();
}

void Coordinator::write_metrics() {
  if (options_.metrics_file.empty()) return;
  try {
    protocol::write_metrics_file(options_.metrics_file, metrics_text());
    metrics_failed_ = false;
  } catch (const std::runtime_error& failed) {
    if (!std::exchange(metrics_failed_, true)) spdlog::warn("--metrics-file: {}", failed.what());
  }
}

void Coordinator::await_metrics() {
  metrics_timer_.expires_after(kMetricsPause);
  metrics_timer_.async_wait([this](const boost::system::error_code& aborted) {
    if (aborted) return;
    write_metrics();
    await_metrics();
  });
}

// What was counted stays in the file when the job is over.
void Coordinator::close_metrics() {
  metrics_timer_.cancel();
  metrics_server_.reset();
  write_metrics();
}

std::string Coordinator::metrics_text() const { return run_metrics(status(), counts_); }

}  // namespace bellows::elastic
