// SPDX-License-Identifier: Apache-2.0
#include "trainer/report/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "trainer/report/course_figures.h"
#include "trainer/report/prediction_figures.h"
#include "trainer/report/summary.h"

namespace bellows::report {

namespace {

// Other options are what one may want to compare.
const std::set<std::string> kSubject{"model",  "data",  "width", "length",
                                     "layers", "heads", "norm",  "precision"};

/// The values of an option over the runs, each once; one value: all the same.
std::vector<std::string> values_of(const std::vector<Run>& runs, const std::string& option) {
  std::vector<std::string> values;
  for (const Run& run : runs) {
    if (run.options.empty()) continue;  // only events
    const auto found = run.options.find(option);
    const std::string value = found != run.options.end() ? found->second : "not set";
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return values;
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : between) + part;
  return all;
}

void compare_runs(const Options& options, const std::vector<Run>& runs,
                  std::vector<std::string>& notes) {
  std::vector<std::string> programs;
  std::set<std::string> names;
  for (const Run& run : runs) {
    if (!run.steps.empty() && std::ranges::find(programs, run.program) == programs.end())
      programs.push_back(run.program);
    for (const auto& [name, value] : run.options) names.insert(name);
  }
  std::vector<std::string> wrong;
  if (programs.size() > 1) wrong.push_back("program (" + joined(programs, ", ") + ")");
  for (const std::string& name : names) {
    const auto values = values_of(runs, name);
    if (values.size() < 2) continue;
    const std::string difference = name + " (" + joined(values, ", ") + ")";
    if (kSubject.contains(name))
      wrong.push_back(difference);
    else
      notes.push_back("The runs differ in " + difference + ".");
  }
  if (wrong.empty()) return;
  const std::string differences = joined(wrong, ", ");
  if (!options.any_program)
    throw NotComparable("these runs differ in " + differences +
                        ": their speeds say nothing about each other (--any-program shows them "
                        "all the same)");
  notes.insert(notes.begin(), "Not the same work: the runs differ in " + differences + ".");
}

bool has_parts(const std::vector<NamedScaling>& scalings) {
  return std::ranges::any_of(scalings, [](const NamedScaling& named) {
    return std::ranges::any_of(named.scaling.sizes,
                               [](const SizeResult& size) { return !size.parts.empty(); });
  });
}

bool has_sizes(const std::vector<NamedScaling>& scalings) {
  return std::ranges::any_of(
      scalings, [](const NamedScaling& named) { return named.scaling.sizes.size() > 1; });
}

}  // namespace

std::vector<NamedScaling> scalings_of(const std::vector<Run>& runs, const Options& options) {
  std::vector<NamedScaling> scalings;
  std::set<int> sizes;
  bool single = true;
  for (const Run& run : runs) {
    Scaling scaling = scaling_of({&run, 1}, options.warm_up);
    if (scaling.sizes.empty()) continue;
    single = single && scaling.sizes.size() == 1;
    sizes.insert(scaling.sizes.front().ranks);
    scalings.push_back({run.name, std::move(scaling)});
  }
  const bool one_each = single && sizes.size() > 1;
  if (!scalings.empty() && (one_each || (options.together && runs.size() > 1)))
    scalings = {{"all runs", scaling_of(runs, options.warm_up)}};
  for (NamedScaling& named : scalings) named.predictions = predict(named.scaling);
  return scalings;
}

Contents make_contents(const Options& options, const std::vector<Run>& runs,
                       const std::vector<NamedScaling>& scalings) {
  Contents contents{.title = options.title};
  compare_runs(options, runs, contents.notes);
  for (const Run& run : runs)
    contents.notes.insert(contents.notes.end(), run.notes.begin(), run.notes.end());
  for (const NamedScaling& named : scalings)
    for (std::string& doubt : doubts(named)) contents.notes.push_back(std::move(doubt));
  contents.tables.push_back(summary_table(runs, options.price));
  Table scaling = scaling_table(scalings);
  for (const NamedScaling& named : scalings)
    for (const std::string& sentence : fit_sentences(named))
      scaling.caption += (scaling.caption.empty() ? "" : " ") + sentence;
  contents.tables.push_back(std::move(scaling));
  contents.tables.push_back(prediction_table(scalings, options.price));
  if (has_sizes(scalings)) {
    contents.figures.push_back(speedup_figure(scalings));
    contents.figures.push_back(efficiency_figure(scalings));
  }
  if (has_parts(scalings)) contents.figures.push_back(breakdown_figure(scalings));
  for (Figure& figure : course_figures(runs)) contents.figures.push_back(std::move(figure));
  Figure cost = cost_figure(scalings, options.price);
  if (!cost.series.empty()) contents.figures.push_back(std::move(cost));
  contents.tables.push_back(change_table(runs));
  contents.tables.push_back(event_table(runs));
  return contents;
}

}  // namespace bellows::report
