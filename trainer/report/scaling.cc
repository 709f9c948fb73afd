// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/scaling.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace bellows::report {

namespace {

// What differs by less is the same.
constexpr double kSameBatch = 0.02;

bool is_same(double a, double b) { return std::abs(a - b) <= kSameBatch * std::max(a, b); }

using BySize = std::map<int, std::vector<const StepRecord*>>;

void collect(const Run& run, int warm_up, BySize& sizes) {
  std::size_t world = 0;
  std::int64_t since = 0;  // steps since the world changed
  for (const StepRecord& record : run.steps) {
    while (world < run.worlds.size() && run.worlds[world].time < record.time) {
      since = 0;
      ++world;
    }
    const bool warm = since >= warm_up;
    since += record.steps;
    if (warm && !record.unmeasured && record.ranks > 0 && record.step_seconds > 0)
      sizes[record.ranks].push_back(&record);
  }
}

Spread batches_of(const std::vector<const StepRecord*>& records) {
  std::vector<Weighted> batches;
  batches.reserve(records.size());
  for (const StepRecord* r : records)
    batches.push_back({r->step_samples(), static_cast<double>(r->steps)});
  return spread_of(std::move(batches));
}

void add_parts(const std::vector<const StepRecord*>& records, SizeResult& result) {
  double steps = 0;
  for (const StepRecord* r : records) {
    if (r->parts.empty()) continue;
    const auto weight = static_cast<double>(r->steps);
    double rest = r->step_seconds;
    for (const auto& [name, seconds] : r->parts) {
      result.parts[name] += seconds * weight;
      rest -= seconds;
    }
    result.parts["other"] += std::max(0.0, rest) * weight;
    steps += weight;
  }
  for (auto& [name, seconds] : result.parts) seconds /= steps;
}

/// Of one record; nothing where its parts are not known. As the trainer does, "backward" ends with
/// this rank's last gradient.
std::optional<trainer::StepTimes> times_of(const StepRecord& r) {
  double compute = 0, update = 0;
  for (const auto& [name, seconds] : r.parts)
    if (name == "data" || name == "forward" || name == "backward")
      compute += seconds;
    else if (name == "update")
      update += seconds;
  const double passes = static_cast<double>(r.accumulation) + 1;
  trainer::StepTimes times{r.nodes,
                           r.ranks,
                           r.step_samples() / r.ranks / passes,
                           compute / passes,
                           r.step_seconds - compute / passes * (passes - 1) - update,
                           update};
  const bool known = compute > 0 && times.optimize_seconds > 0 && times.micro_batch > 0 &&
                     r.nodes <= r.ranks && std::isfinite(times.micro_batch);
  return known ? std::optional(times) : std::nullopt;
}

void add_passes(const std::vector<const StepRecord*>& records, Scaling& scaling) {
  // One step says little, and what is left of a pass is no batch of its own.
  constexpr double kFewest = 3;
  struct Times {
    trainer::StepTimes first;
    std::vector<Weighted> accumulate, optimize, update;
  };
  std::map<std::tuple<int, std::int64_t, std::int64_t>, Times> groups;
  for (const StepRecord* r : records) {
    const auto times = times_of(*r);
    if (!times) continue;
    Times& group = groups[{r->nodes, r->accumulation, std::llround(times->micro_batch * r->ranks)}];
    group.first = *times;
    group.accumulate.push_back({times->accumulate_seconds, static_cast<double>(r->steps)});
    group.optimize.push_back({times->optimize_seconds, static_cast<double>(r->steps)});
    group.update.push_back({times->update_seconds, static_cast<double>(r->steps)});
  }
  for (auto& [key, group] : groups) {
    const Spread accumulate = spread_of(std::move(group.accumulate));
    if (accumulate.count < kFewest) continue;
    group.first.accumulate_seconds = accumulate.median;
    group.first.optimize_seconds = spread_of(std::move(group.optimize)).median;
    group.first.update_seconds = spread_of(std::move(group.update)).median;
    scaling.passes.push_back({group.first, std::get<1>(key)});
  }
}

std::int64_t whole_option(const Run& run, const char* name) {
  const auto found = run.options.find(name);
  std::int64_t number = 0;
  if (found != run.options.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
  return number;
}

void add_noise(const Run& run, Scaling& scaling) {
  for (const StepRecord& record : run.steps)
    if (std::isfinite(record.noise_scale)) scaling.noise_scale = record.noise_scale;
  if (const std::int64_t batch = whole_option(run, "batch"); batch > 0) scaling.base_batch = batch;
  scaling.max_batch = std::max(scaling.max_batch, whole_option(run, "max-batch"));
}

SizeResult size_result(int ranks, std::vector<const StepRecord*> records, bool weak) {
  SizeResult result;
  result.ranks = ranks;
  const Spread batches = batches_of(records);
  if (batches.count > 0) result.batch = batches.median;
  result.batches_differ = !is_same(batches.low, batches.high);
  std::erase_if(records, [&](const StepRecord* r) { return r->step_samples() < result.batch / 2; });
  std::vector<Weighted> seconds, speeds;
  for (const StepRecord* r : records) {
    const auto weight = static_cast<double>(r->steps);
    seconds.push_back({r->step_seconds, weight});
    const double known = r->step_samples();
    const double samples = std::isfinite(known) ? known : weak ? ranks : 1;
    speeds.push_back({samples / r->step_seconds, weight});
  }
  result.seconds = spread_of(std::move(seconds));
  result.speed = spread_of(std::move(speeds));
  add_parts(records, result);
  return result;
}

Scaling::Kind kind_of(const std::vector<SizeResult>& sizes, const std::string& said) {
  if (said == "weak") return Scaling::Kind::weak;
  if (said == "strong") return Scaling::Kind::strong;
  bool strong = true, weak = true;
  for (const SizeResult& size : sizes) {
    if (!std::isfinite(size.batch)) continue;
    strong = strong && is_same(size.batch, sizes.front().batch);
    weak = weak && is_same(size.batch / size.ranks, sizes.front().batch / sizes.front().ranks);
  }
  return strong ? Scaling::Kind::strong : weak ? Scaling::Kind::weak : Scaling::Kind::mixed;
}

void compare(Scaling& scaling) {
  scaling.base = scaling.sizes.front().ranks;
  const double base_speed = scaling.sizes.front().speed.median / scaling.base;
  for (SizeResult& size : scaling.sizes) {
    size.speedup = size.speed.median / base_speed;
    size.efficiency = size.speedup / size.ranks;
    size.rank_seconds_per_sample = size.ranks / size.speed.median;
    if (size.ranks > 1 && scaling.base == 1) {
      const double n = size.ranks;
      size.karp_flatt = (1 / size.speedup - 1 / n) / (1 - 1 / n);
    }
  }
}

void fit(Scaling& scaling) {
  if (scaling.sizes.size() < 2) return;
  std::map<int, double> seconds, speedups;
  for (const SizeResult& size : scaling.sizes) {
    seconds[size.ranks] = 1 / size.speed.median;
    speedups[size.ranks] = size.speedup;
  }
  if (scaling.kind == Scaling::Kind::weak) {
    scaling.gustafson = fit_gustafson(speedups);
    return;
  }
  const auto [serial, error] = fit_amdahl(seconds);
  scaling.amdahl = serial;
  scaling.amdahl_error = error;
  if (serial > 1e-6) scaling.half_efficient = (1 + serial) / serial;
}

}  // namespace

std::string to_string(Scaling::Kind kind) {
  switch (kind) {
    case Scaling::Kind::strong:
      return "strong";
    case Scaling::Kind::weak:
      return "weak";
    case Scaling::Kind::mixed:
      break;
  }
  return "mixed";
}

std::pair<double, double> fit_amdahl(const std::map<int, double>& seconds) {
  // t(n) = a/n + b; each equation divided by its t, so that relative errors count.
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const auto& [n, t] : seconds) {
    const double u = 1 / (n * t), v = 1 / t;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  double a = 0, b = 0;
  if (determinant > 1e-12 * uu * vv) {
    a = (u1 * vv - v1 * uv) / determinant;
    b = (v1 * uu - u1 * uv) / determinant;
  } else {
    a = u1 / uu;
  }
  if (b < 0) {
    b = 0;
    a = u1 / uu;
  } else if (a < 0) {  // more ranks were slower
    a = 0;
    b = v1 / vv;
  }
  double error = 0;
  for (const auto& [n, t] : seconds) error = std::max(error, std::abs((a / n + b) / t - 1));
  return {b / (a + b), error};
}

double fit_gustafson(const std::map<int, double>& speedup) {
  double up = 0, down = 0;
  for (const auto& [n, s] : speedup) {
    up += (n - 1.0) * (n - s);
    down += (n - 1.0) * (n - 1.0);
  }
  return down > 0 ? std::clamp(up / down, 0.0, 1.0) : 0;
}

Scaling scaling_of(std::span<const Run> runs, int warm_up) {
  BySize by_size;
  std::string said;
  Scaling scaling;
  for (const Run& run : runs) {
    add_noise(run, scaling);
    collect(run, warm_up, by_size);
    if (!run.scaling.empty()) said = run.scaling;
  }
  for (auto& [ranks, records] : by_size) {
    add_passes(records, scaling);
    SizeResult result = size_result(ranks, std::move(records), said == "weak");
    if (result.speed.count > 0) scaling.sizes.push_back(std::move(result));
  }
  if (scaling.sizes.empty()) return scaling;
  scaling.kind = kind_of(scaling.sizes, said);
  compare(scaling);
  fit(scaling);
  return scaling;
}

}  // namespace bellows::report
