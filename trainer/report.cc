// SPDX-License-Identifier: Apache-2.0
#include "trainer/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <utility>

#include "trainer/adaptation/lr_rule.h"
#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double rate(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

// Of the lines of --metrics: raised when what a member means changes.
constexpr int kMetricsVersion = 1;

// Under bellows-run our output is a pipe; it tells us whether a terminal is at the other end.
bool on_terminal() {
  const char* told = std::getenv("BELLOWS_TTY");
  return told != nullptr ? std::strcmp(told, "1") == 0 : isatty(STDOUT_FILENO) == 1;
}

/// By rank; what no rank knows of is left out.
void add_usage(const std::vector<Usage>& usage, boost::json::object& fields) {
  const auto add = [&](const char* name, double Usage::* member) {
    boost::json::array values;
    for (const Usage& rank : usage) values.emplace_back(rank.*member);
    fields[name] = std::move(values);
  };
  const auto known = [&](double Usage::* member) {
    return std::ranges::any_of(usage, [&](const Usage& rank) { return rank.*member > 0; });
  };
  if (known(&Usage::peak_memory)) add("peak_memory_bytes", &Usage::peak_memory);
  if (!known(&Usage::gpu_memory)) return;
  add("gpu_memory_bytes", &Usage::gpu_memory);
  add("gpu_utilisation", &Usage::gpu_utilisation);  // of a device that has nothing to do, too
}

// JSON knows no infinity, which it is while the gradients' mean cannot be told from zero.
boost::json::value noise_of(const TrainingState& state, const Options& options) {
  const double noise = noise_scale(std::span<const NoiseAverages>(state.adaptation.noise),
                                   static_cast<double>(options.batch));
  return std::isfinite(noise) ? boost::json::value(noise) : boost::json::value(nullptr);
}

}  // namespace

Report::Report(const Options& options, const Dataset& dataset, Course& course)
    : options_(options),
      course_(course),
      tokens_(dataset.shape().tokens),
      classifies_(dataset.shape().classes > 0),
      pass_samples_(dataset.size(Split::kTrain)) {}

void Report::enter(int ranks) {
  if (line_open_) fmt::print("\n");
  line_open_ = false;
  ranks_ = ranks;
  promised_ = 0;  // of a decision that the last world has not got round to
  terminal_ = ranks > 0 && on_terminal();
  if (ranks_ == 0 || options_.metrics.empty() || metrics_.is_open()) return;
  try {
    metrics_.open(options_.metrics);
  } catch (const std::runtime_error& failed) {
    throw UsageError(fmt::format("--metrics {}", failed.what()));
  }
}

Report::~Report() {
  if (line_open_) fmt::print("\n");
}

void Report::line(const std::string& text) {
  if (line_open_) fmt::print("\r\033[K");
  line_open_ = false;
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Report::note(const std::string& text) {
  if (ranks_ > 0) line(text);
}

void Report::warning(const std::string& text) {
  if (ranks_ == 0) return;
  if (line_open_) fmt::print("\n");
  line_open_ = false;
  std::fflush(stdout);
  fmt::print(stderr, "{}: {}\n", options_.program, text);
  metric("warning", {{"text", text}});
}

void Report::metric(const char* event, boost::json::object fields) {
  if (!metrics_.is_open() || ranks_ == 0) return;
  boost::json::object all{
      {"event", event}, {"time", unix_time()}, {"seconds", seconds_since(course_.started)}};
  // JSON has no infinity and no NaN.
  for (auto& [key, value] : fields)
    all[key] = value.is_double() && !std::isfinite(value.as_double()) ? boost::json::value(nullptr)
                                                                      : value;
  const std::string failed = metrics_.append(boost::json::serialize(all));
  if (!failed.empty() && !std::exchange(metrics_failed_, true)) warning("--metrics " + failed);
}

std::string Report::quality(const Sums& sums) const {
  if (tokens_) return fmt::format("  perplexity {:.3f}", std::exp(sums.mean_loss()));
  if (std::isnan(sums.correct)) return "";
  return fmt::format("  accuracy {:.4f}", sums.accuracy());
}

double Report::done(const TrainingState& state) const {
  double done = share_done(options_, state.standing(options_));
  if (options_.train_seconds > 0)
    done = std::max(done, seconds_since(course_.started) / options_.train_seconds);
  return std::min(1.0, done);
}

double Report::samples_left(const TrainingState& state) const {
  const Standing at = state.standing(options_);
  double passes = options_.passes > 0 ? static_cast<double>(options_.passes) - at.passes : -1;
  double steps = options_.steps > 0 ? static_cast<double>(options_.steps) - at.steps : -1;
  double of_step = static_cast<double>(options_.batch);
  if (counts_gain(options_.lr_rule) && state.adaptation.batch > 0) {
    // Larger batches use more samples for the same.
    of_step = static_cast<double>(state.adaptation.batch) /
              gain(std::span<const NoiseAverages>(state.adaptation.noise),
                   static_cast<double>(state.adaptation.batch) / of_step);
    passes *= of_step / static_cast<double>(options_.batch);
  }
  double left = -1;
  const auto at_most = [&left](double samples) {
    left = left < 0 ? std::max(samples, 0.0) : std::clamp(samples, 0.0, left);
  };
  if (options_.passes > 0) at_most(passes * static_cast<double>(pass_samples_));
  if (options_.steps > 0) at_most(steps * of_step);
  return left;
}

std::string Report::eta(const TrainingState& state) const {
  const double now = done(state);
  if (now <= course_.first_done) return "?";
  const auto left =
      static_cast<long>(seconds_since(course_.started) * (1 - now) / (now - course_.first_done));
  return left < 3600 ? fmt::format("{}:{:02}", left / 60, left % 60)
                     : fmt::format("{}:{:02}:{:02}", left / 3600, left / 60 % 60, left % 60);
}

void Report::start(const TrainingState& state, const std::string& device, int threads) {
  course_.started = course_.saved = course_.worked = Clock::now();
  course_.first_done = done(state);
  if (ranks_ == 0) return;
  std::int64_t size = 0;
  for (const auto& [name, tensor] : state.parameters) size += tensor.numel();
  line(fmt::format("{} with {} parameters on {}: {} ranks, {} thread{} each, {}, batch {}",
                   options_.model, size, options_.data, ranks_, threads, threads == 1 ? "" : "s",
                   device, options_.batch));
  boost::json::object options;
  for (const auto& [name, value] : options_.mathematics()) options[name] = value;
  metric("start", {{"version", kMetricsVersion},
                   {"program", options_.program},
                   {"ranks", ranks_},
                   {"threads", threads},
                   {"parameters", size},
                   {"step", state.step},
                   {"options", std::move(options)}});
}

void Report::change(const TrainingState& state, const Change& change) {
  // Since the end of the last work in the old world.
  const double standstill = seconds_since(course_.worked);
  pause_over();
  interval_ = {};
  interval_seconds_ = 0;
  interval_samples_ = 0;
  interval_steps_ = 0;
  interval_parts_ = {};
  if (ranks_ == 0) return;
  const char* cause = change.repair ? "repair" : change.joined > 0 ? "join" : "leave";
  std::string who;
  if (change.joined > 0) who += fmt::format(", {} joined", change.joined);
  if (change.left > 0) who += fmt::format(", {} {}", change.left, change.repair ? "lost" : "left");
  line(fmt::format("{}: {} ranks after step {}{} ({:.2f} s without training, {:.1f} MB sent)",
                   cause, ranks_, state.step, who, standstill,
                   static_cast<double>(change.bytes) / 1e6));
  metric("world", {{"epoch", change.epoch},
                   {"ranks", ranks_},
                   {"step", state.step},
                   {"cause", cause},
                   {"joined", change.joined},
                   {"left", change.left},
                   {"standstill_seconds", standstill},
                   {"bytes", change.bytes}});
}

double Report::speed() const {
  return rate(static_cast<double>(course_.trained_samples), course_.training_seconds);
}

void Report::world_begins() {
  samples_before_ = course_.trained_samples;
  seconds_before_ = course_.training_seconds;
}

double Report::world_speed() const {
  return rate(static_cast<double>(course_.trained_samples - samples_before_),
              course_.training_seconds - seconds_before_);
}

/// Where these can change.
std::string Report::adaptation(const TrainingState& state, const StepResult& result) const {
  std::string text;
  if (options_.batch_rule != "fixed") text += fmt::format("  batch {}", state.adaptation.batch);
  if (options_.lr_rule != "none") text += fmt::format("  lr {:.4g}", result.rate);
  if (options_.measures_noise())
    text += fmt::format("  noise scale {:.4g}",
                        noise_scale(std::span<const NoiseAverages>(state.adaptation.noise),
                                    static_cast<double>(options_.batch)));
  return text;
}

/// When it is not that of the step before. All ranks keep count, the first one tells.
void Report::tell_batch(const TrainingState& state) {
  const Adaptation& now = state.adaptation;
  const std::int64_t before = std::exchange(course_.batch, now.batch);
  const std::int64_t micro_before = std::exchange(course_.micro_batch, now.micro_batch);
  // With other rules the samples at once follow the ranks.
  const bool micro = options_.adapts() && micro_before != now.micro_batch;
  if (ranks_ == 0 || before == 0 || (before == now.batch && !micro)) return;
  const double promise = std::exchange(promised_, 0);
  std::string why;
  if (promise > 0) why = fmt::format(", goodput {:+.0f} % by the model", 100 * (promise - 1));
  line(fmt::format("batch {} -> {} with step {}: {} ranks, {} samples at once, {} passes{}", before,
                   now.batch, state.step, ranks_, now.micro_batch, now.accumulation + 1, why));
  boost::json::object fields{{"step", state.step},
                             {"ranks", ranks_},
                             {"before", before},
                             {"batch", now.batch},
                             {"micro_batch", now.micro_batch},
                             {"accumulation", now.accumulation}};
  if (options_.measures_noise()) fields["noise_scale"] = noise_of(state, options_);
  if (promise > 0) fields["promise"] = promise;
  metric("batch", std::move(fields));
}

/// Once.
void Report::tell_if_too_large(const TrainingState& state) {
  const auto batch = static_cast<std::uint64_t>(state.adaptation.batch);
  if (batch > pass_samples_ && !std::exchange(batch_too_large_, true))
    warning(fmt::format("the batch of {} is larger than the data: each step takes all {} samples",
                        batch, pass_samples_));
}

void Report::step(const TrainingState& state, const StepResult& result) {
  const double took = seconds_since(course_.worked);
  course_.training_seconds += took;
  course_.trained_samples += result.samples;
  course_.worked = Clock::now();
  tell_batch(state);
  if (ranks_ == 0) return;
  tell_if_too_large(state);
  interval_seconds_ += took;
  interval_samples_ += result.samples;
  ++interval_steps_;
  for (std::size_t i = 0; i < result.parts.size(); ++i) interval_parts_[i] += result.parts[i];
  interval_.add(result.sums);

  const bool due = state.step % options_.log_every == 0 || result.pass_ended;
  const bool redraw = terminal_ && seconds_since(shown_) >= 0.2;
  if (!due && !redraw) return;
  const double speed = rate(static_cast<double>(interval_samples_), interval_seconds_);
  // At the end of a pass the position is already in the next one.
  const std::uint64_t pass = state.sampler.position().pass + (result.pass_ended ? 0 : 1);
  if (redraw || !terminal_) {
    const std::string limit = options_.passes > 0 ? fmt::format("/{}", options_.passes) : "";
    const std::string text = fmt::format(
        "pass {}{}  step {}  {:3.0f}%  {:.0f} samples/s  loss {:.4f}{}  ranks {}{}  ETA {}", pass,
        limit, state.step, 100 * done(state), speed, interval_.mean_loss(),
        classifies_ ? quality(interval_) : "", ranks_, adaptation(state, result), eta(state));
    shown_ = Clock::now();
    if (terminal_) {
      fmt::print("\r\033[K{}", text);
      std::fflush(stdout);
      line_open_ = true;
    } else {
      line(text);
    }
  }
  if (!due) return;
  const auto steps = static_cast<double>(interval_steps_);
  boost::json::object parts;
  for (std::size_t i = 0; i < StepClock::kNames.size(); ++i)
    parts[StepClock::kNames[i]] = interval_parts_[i] / steps;
  boost::json::object fields{{"step", state.step},
                             {"steps", interval_steps_},
                             {"pass", pass},
                             {"sample", state.samples},
                             {"loss", interval_.mean_loss()},
                             {"lr", result.rate},
                             {"scale", result.scale},
                             {"gain", result.gain},
                             {"progress", state.adaptation.progress},
                             {"samples_per_second", speed},
                             {"step_seconds", interval_seconds_ / steps},
                             {"parts", std::move(parts)},
                             {"batch", state.adaptation.batch},
                             {"accumulation", state.adaptation.accumulation},
                             {"mean_batch", static_cast<double>(interval_samples_) / steps},
                             {"ranks", ranks_},
                             {"nodes", result.nodes}};
  add_usage(result.usage, fields);
  if (classifies_) fields["accuracy"] = interval_.accuracy();
  if (options_.clip > 0) fields["gradient_norm"] = result.gradient_norm;
  if (options_.measures_noise()) fields["noise_scale"] = noise_of(state, options_);
  metric("step", std::move(fields));
  interval_seconds_ = 0;
  interval_samples_ = 0;
  interval_steps_ = 0;
  interval_parts_ = {};
  interval_ = {};
}

void Report::short_of_memory(const TrainingState& state, const StepResult& result) {
  warning(fmt::format(
      "rank {} has no memory for more than {} samples at once: from step {} on ranks work on so "
      "many, and accumulate",
      result.short_of_memory, result.fits, state.step + 1));
  metric("memory",
         {{"step", state.step}, {"rank", result.short_of_memory}, {"micro_batch", result.fits}});
}

void Report::straggler(const TrainingState& state, int rank, const std::string& host,
                       double slowness) {
  if (ranks_ == 0) return;
  warning(fmt::format(
      "rank {} on {} takes {:.1f} times as long per sample as the others{}", rank, host, slowness,
      options_.drop_stragglers ? ": it is asked to leave (--drop-stragglers)" : ""));
  metric("straggler", {{"step", state.step},
                       {"rank", rank},
                       {"host", host},
                       {"slowness", slowness},
                       {"dropped", options_.drop_stragglers}});
}

void Report::evaluation(const TrainingState& state, const Sums& sums, double seconds) {
  pause_over();
  if (ranks_ == 0) return;
  line(fmt::format("test after {} passes, {} steps: loss {:.4f}{}", state.sampler.position().pass,
                   state.step, sums.mean_loss(), quality(sums)));
  metric("evaluation", {{"step", state.step},
                        {"pass", state.sampler.position().pass},
                        {"sample", state.samples},
                        {"loss", sums.mean_loss()},
                        {"accuracy", sums.accuracy()},
                        {"perplexity", std::exp(sums.mean_loss())},
                        {"evaluation_seconds", seconds}});
}

void Report::checkpoint(const TrainingState& state, const std::string& file, double seconds) {
  if (ranks_ == 0) return;
  line(fmt::format("checkpoint of step {}: {} ({:.2f} s)", state.step, file, seconds));
  metric("checkpoint", {{"step", state.step}, {"file", file}, {"checkpoint_seconds", seconds}});
}

void Report::resume(const TrainingState& state, const std::string& file) {
  if (ranks_ == 0) return;
  line(fmt::format("resumed from {}: step {}, pass {}, sample {} of {}", file, state.step,
                   state.sampler.position().pass + 1, state.sampler.position().offset,
                   pass_samples_));
  metric("resume", {{"step", state.step}, {"file", file}});
}

void Report::end(const TrainingState& state, const Sums& test, const std::string& reason) {
  if (ranks_ == 0) return;
  const double passes = static_cast<double>(state.samples) / static_cast<double>(pass_samples_);
  const double seconds = seconds_since(course_.started);
  metric("end", {{"reason", reason},
                 {"step", state.step},
                 {"passes", passes},
                 {"loss", test.mean_loss()},
                 {"accuracy", test.accuracy()},
                 {"samples_per_second", speed()},
                 {"ranks", ranks_}});
  const std::string tail =
      fmt::format("ranks={} passes={:.4g} steps={} samples/s={:.0f} seconds={:.1f}", ranks_, passes,
                  state.step, speed(), seconds);
  if (reason == "stopped") {
    line("stopped: " + tail);
    return;
  }
  if (test.targets == 0) {
    line("result: " + tail);
    return;
  }
  std::string measure;
  if (tokens_)
    measure = fmt::format("perplexity={:.3f} ", std::exp(test.mean_loss()));
  else if (!std::isnan(test.correct))
    measure = fmt::format("accuracy={:.4f} ", test.accuracy());
  line(fmt::format("result: {}loss={:.4f} {}", measure, test.mean_loss(), tail));
}

}  // namespace bellows::trainer
