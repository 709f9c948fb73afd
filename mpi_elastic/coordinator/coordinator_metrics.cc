// SPDX-License-Identifier: Apache-2.0
// How fast the program is, and what Prometheus is told: by HTTP (--metrics), by a file
// (--metrics-file).
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json.hpp>

#include "mpi_elastic/coordinator/coordinator.h"
#include "protocol/size_hints_json.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

// Before that a world's speed is that of warming up.
constexpr auto kLasted = std::chrono::seconds(5);

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
  rank.hints.reset();
  const WorldSpec* world = membership_.newest();
  if (rank.rank != 0 || world == nullptr || phase_ != Phase::steady) return;
  // The speed may still be that of the last world.
  if (head.contains("epoch") && message.number("epoch") != world->epoch) return;
  try {
    rank.hints = protocol::size_hints_in(head);
  } catch (const protocol::ProtocolError& wrong) {
    spdlog::info("rank 0: {}", wrong.what());
  }
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
  const auto attempt = [this](const auto& open) {
    try {
      open();
    } catch (const std::runtime_error& failed) {
      if (!left_) throw;
      spdlog::warn("{}", failed.what());  // a job that runs is worth more
    }
  };
  if (options_.metrics) {
    attempt(
        [&] { spdlog::info("metrics at {}", metrics_.listen(*options_.metrics, "--metrics")); });
  }
  attempt([&] { metrics_.keep(options_.metrics_file, "--metrics-file"); });
}

std::string Coordinator::metrics_text() const { return run_metrics(status(), counts_); }

}  // namespace bellows::elastic
