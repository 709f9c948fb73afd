// SPDX-License-Identifier: Apache-2.0
// How the speed grows with the number of ranks, from the sizes that one run, or several of the same
// program, have had.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/adaptation/throughput.h"
#include "trainer/report/run.h"
#include "trainer/report/statistics.h"

namespace bellows::report {

struct SizeResult {
  int ranks = 0;
  Spread seconds;  // per step
  Spread speed;    // samples per second; steps where a run does not say how many samples they have
  double batch = kUnknown;      // median
  bool batches_differ = false;  // by their quartiles: the batch changed while it was measured
  std::map<std::string, double> parts{};  // mean seconds per step, "other" is what is left
  double speedup = kUnknown;              // s(N) / s(base) times base
  double efficiency = kUnknown;           // speedup / N
  double karp_flatt = kUnknown;           // Karp and Flatt 1990: (1/S - 1/N) / (1 - 1/N)
  double rank_seconds_per_sample = kUnknown;
};

/// Medians of the steps of one number of nodes, ranks, samples and passes before the last.
struct MeasuredPasses {
  trainer::StepTimes times;
  std::int64_t accumulation = 0;
};

struct Scaling {
  /// strong: the same batch at each size, efficiency is t1 / (N tN). weak: the same batch per rank,
  /// efficiency is t1 / tN. mixed: neither, by samples per second, which for the other two is the
  /// same.
  enum class Kind { strong, weak, mixed };
  Kind kind = Kind::mixed;
  std::vector<SizeResult> sizes = {};  // by ranks
  int base = 0;                        // the smallest size, which counts as ideal

  /// Amdahl 1967: seconds per sample at N ranks are t1 (f + (1-f)/N), least squares on the relative
  /// error; f from 0 to 1. Needs two sizes. Not for weak scaling.
  std::optional<double> amdahl = {};
  double amdahl_error = 0;  // the largest relative error of the fit
  /// Gustafson 1988: the speed-up at N ranks is N - a (N-1), least squares; a from 0 to 1. For weak
  /// scaling.
  std::optional<double> gustafson = {};
  /// The largest number of ranks of which Amdahl's law with this f expects an efficiency of at
  /// least 50%: (1 + f) / f. Nothing when f is 0.
  std::optional<double> half_efficient = {};

  /// For a model of step times, where the lines divide the steps into parts.
  std::vector<MeasuredPasses> passes = {};
  // Of the last run that has them. The scale in samples; 0: not known.
  double noise_scale = kUnknown;
  std::int64_t base_batch = 0, max_batch = 0;
};

std::string to_string(Scaling::Kind kind);

/// Without the first `warm_up` steps after each change of the world, and without records of steps
/// that are much smaller than usual (the end of a pass).
Scaling scaling_of(std::span<const Run> runs, int warm_up);

/// Serial fraction and largest relative error of the fit; `seconds` per sample by ranks.
std::pair<double, double> fit_amdahl(const std::map<int, double>& seconds);
double fit_gustafson(const std::map<int, double>& speedup);

}  // namespace bellows::report
