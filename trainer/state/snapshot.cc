// SPDX-License-Identifier: Apache-2.0
#include "trainer/state/snapshot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>

#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

using checkpoint::Element;

constexpr std::pair<at::ScalarType, Element> kElements[] = {
    {at::kHalf, Element::f16},    {at::kBFloat16, Element::bf16}, {at::kFloat, Element::f32},
    {at::kDouble, Element::f64},  {at::kChar, Element::i8},       {at::kByte, Element::u8},
    {at::kShort, Element::i16},   {at::kInt, Element::i32},       {at::kLong, Element::i64},
    {at::kBool, Element::boolean}};

Element element_of(const torch::Tensor& tensor) {
  for (const auto& [type, element] : kElements)
    if (type == tensor.scalar_type()) return element;
  throw std::invalid_argument("a checkpoint cannot hold this type of tensor");
}

void put(checkpoint::State& to, const std::string& path, const torch::Tensor& tensor) {
  auto owner = std::make_shared<torch::Tensor>(tensor.detach().cpu().contiguous());
  const void* data = owner->const_data_ptr();
  to.set(path, checkpoint::Tensor::share(element_of(tensor), tensor.sizes().vec(), data, owner));
}

void take(const checkpoint::State& from, const std::string& path, torch::Tensor tensor) {
  const checkpoint::Tensor* stored = from.find_tensor(path);
  if (stored == nullptr) throw UsageError("the checkpoint has no " + path);
  if (stored->element() != element_of(tensor) || stored->shape() != tensor.sizes().vec())
    throw UsageError(fmt::format(
        "{} is {} {} in the checkpoint and {} {} in this model", path,
        checkpoint::element_name(stored->element()), fmt::join(stored->shape(), "x"),
        checkpoint::element_name(element_of(tensor)), fmt::join(tensor.sizes().vec(), "x")));
  const torch::NoGradGuard no_grad;
  tensor.copy_(torch::from_blob(const_cast<void*>(stored->data()), tensor.sizes(),
                                torch::TensorOptions(tensor.scalar_type())));
}

/// The tensors of a state that each checkpoint has, with their paths.
NamedTensors paths_of(const TrainingState& state) {
  NamedTensors all;
  for (const auto& [name, tensor] : state.parameters)
    all.emplace_back("parameters/" + name, tensor);
  for (const auto& [name, tensor] : state.buffers) all.emplace_back("buffers/" + name, tensor);
  for (const auto& [name, tensor] : state.optimizer->state())
    all.emplace_back("optimizer/" + name, tensor);
  return all;
}

/// Of another network some tensors may fit, and others be left over.
void require_no_more(const TrainingState& state, const checkpoint::State& from) {
  std::set<std::string, std::less<>> own;
  for (const auto& [path, tensor] : paths_of(state)) own.insert(path);
  for (const auto& [path, tensor] : from.tensors())
    if ((path.starts_with("parameters/") || path.starts_with("buffers/")) && !own.contains(path))
      throw UsageError(fmt::format("the checkpoint has {}, which this model has not", path));
}

void put_averages(checkpoint::State& to, const WeightAverage& average) {
  for (const auto& [name, tensor] : average.tensors()) put(to, "ema/" + name, tensor);
}

/// Where the run that wrote the checkpoint had none, they begin with its parameters.
void take_averages(WeightAverage& average, const checkpoint::State& from) {
  if (!average.kept()) return;
  if (from.find_tensor("ema/" + average.tensors().front().first) == nullptr) return average.begin();
  for (const auto& [name, tensor] : average.tensors()) take(from, "ema/" + name, tensor);
}

void compare_options(const Options& options, const checkpoint::State& from) {
  if (options.accept_changes) return;
  std::vector<std::string> changes, implied;
  // What those of earlier versions do not have.
  const std::map<std::string, std::string> otherwise{{"batch-rule", "fixed"}, {"lr-rule", "none"},
                                                     {"batch-norm", "local"}, {"ema", "0"},
                                                     {"no-decay", ""},        {"lr-factors", ""}};
  const std::string kNone = "(none)";
  const std::map<std::string, std::string> now = options.mathematics();
  const auto same = [&](const std::string& name) {
    return from.get_or<std::string>("options/" + name, kNone) == now.at(name);
  };
  for (const auto& [name, value] : now) {
    const auto usual = otherwise.find(name);
    const std::string stored = from.get_or<std::string>(
        "options/" + name, usual == otherwise.end() ? kNone : usual->second);
    if (stored == value) continue;
    // What only counts beside another option, or is taken from it, differs since that one does.
    const bool usual_rate = options.lr == (options.optimizer == "sgd" ? 0.05 : 0.001);
    const bool follows = stored == kNone || (name == "lr" && usual_rate && !same("optimizer"));
    (follows ? implied : changes)
        .push_back(fmt::format("--{} was {} and is {}", name, stored, value));
  }
  if (changes.empty()) changes = implied;
  if (!changes.empty())
    throw UsageError(
        fmt::format("the checkpoint was made with other options: {}; use the same, "
                    "or --resume none, or --accept-changes",
                    fmt::join(changes, ", ")));
}

/// The words of the adaptation by name, for both ways.
template <typename State, typename F>
void for_adaptation(State& adaptation, F f) {
  f("progress", adaptation.progress);
  f("batch", adaptation.batch);
  f("micro_batch", adaptation.micro_batch);
  f("accumulation", adaptation.accumulation);
  f("rank_batch", adaptation.rank_batch);
  f("factor", adaptation.factor);
  f("ramp_from", adaptation.ramp_from);
  f("ramp_start", adaptation.ramp_start);
  f("rate", adaptation.rate);
  f("policy_factor", adaptation.policy_factor);
}

/// Those of a group of parameters; the first has the names of earlier versions.
template <typename Averages, typename F>
void for_noise(Averages& noise, std::size_t group, F f) {
  const std::string end = group == 0 ? "" : "_" + std::to_string(group);
  f("noise_square" + end, noise.square);
  f("noise_variance" + end, noise.variance);
  f("noise_weight" + end, noise.weight);
  f("noise_estimates" + end, noise.estimates);
  f("noise_skipped" + end, noise.skipped);
  f("noise_differenced" + end, noise.differenced);
}

// Of each kind of step, as in ProfileEntry; those of earlier versions have no time of the update
// apart.
constexpr std::int64_t kProfileColumns = 8;
constexpr std::int64_t kEarlierColumns = 7;
constexpr char kProfile[] = "adaptation/profile";

void put_profile(checkpoint::State& to, const Profile& profile) {
  std::vector<double> rows;
  for (const ProfileEntry& entry : profile.entries) {
    if (entry.steps == 0) continue;
    for (const std::int64_t count :
         {entry.nodes, entry.ranks, entry.micro_batch, entry.steps, entry.last})
      rows.push_back(static_cast<double>(count));
    rows.insert(rows.end(),
                {entry.accumulate_seconds, entry.optimize_seconds, entry.update_seconds});
  }
  if (!rows.empty())
    put(to, kProfile, torch::tensor(rows, torch::kFloat64).view({-1, kProfileColumns}));
}

Profile take_profile(const checkpoint::State& from) {
  Profile profile;
  const checkpoint::Tensor* stored = from.find_tensor(kProfile);
  if (stored == nullptr) return profile;
  const std::vector<std::int64_t> shape = stored->shape();
  if (stored->element() != Element::f64 || shape.size() != 2 ||
      (shape[1] != kProfileColumns && shape[1] != kEarlierColumns) ||
      shape[0] > static_cast<std::int64_t>(Profile::kPlaces))
    throw UsageError(std::string(kProfile) + " of the checkpoint is no table of step times");
  const auto* row = static_cast<const double*>(stored->data());
  for (std::int64_t i = 0; i < shape[0]; ++i, row += shape[1]) {
    const auto count = [&](int column) { return static_cast<std::int64_t>(row[column]); };
    const double update = shape[1] == kProfileColumns ? row[7] : 0;
    profile.entries[static_cast<std::size_t>(i)] = {count(0), count(1), count(2), count(3),
                                                    count(4), row[5],   row[6],   update};
    profile.steps = std::max(profile.steps, count(4));
  }
  return profile;
}

void restore_adaptation(TrainingState& state, const Options& options,
                        const checkpoint::State& from) {
  state.adaptation = {};
  // Those of earlier versions have none: their batch did not change.
  if (from.find_attribute("adaptation/progress") == nullptr)
    state.adaptation.progress = static_cast<double>(state.step);
  else
    for_adaptation(state.adaptation, [&](const char* name, auto& value) {
      value = from.get<std::remove_reference_t<decltype(value)>>(std::string("adaptation/") + name);
    });
  for (std::size_t group = 0; group < kNoiseGroups; ++group)
    for_noise(state.adaptation.noise[group], group, [&](const std::string& name, auto& value) {
      value = from.get_or("adaptation/" + name, std::remove_reference_t<decltype(value)>{});
    });
  state.adaptation.profile = take_profile(from);
  state.previous = {};
  const auto batch = from.get_or<double>("adaptation/previous_batch", 0.0);
  if (batch > 0 && state.norms) {
    for (const auto& [name, parameter] : state.parameters) {
      state.previous.gradients.push_back(torch::zeros_like(parameter.detach()));
      take(from, "previous/" + name, state.previous.gradients.back());
    }
    state.previous.batch = batch;
  }
  if (options.rank_batch > 0) state.adaptation.rank_batch = options.rank_batch;
}

std::int64_t whole(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

checkpoint::State capture(const TrainingState& state, const Options& options) {
  checkpoint::State to;
  for (const auto& [path, tensor] : paths_of(state)) put(to, path, tensor);
  put_averages(to, state.average);
  // Our own draws are functions of (seed, pass, sample); a model may use libtorch's generator.
  put(to, "rng/torch", state.generator);
  to.set("optimizer/updates", state.optimizer->updates());
  to.set("data/pass", whole(state.sampler.position().pass));
  to.set("data/offset", whole(state.sampler.position().offset));
  to.set("data/samples", whole(state.sampler.size()));
  to.set("progress/step", state.step);
  to.set("progress/pass", whole(state.sampler.position().pass));
  to.set("progress/sample", whole(state.samples));
  to.set("progress/pass_loss_sum", state.pass_sums.loss);
  to.set("progress/pass_correct", state.pass_sums.correct);
  to.set("progress/pass_targets", state.pass_sums.targets);
  for_adaptation(state.adaptation, [&](const char* name, const auto& value) {
    to.set(std::string("adaptation/") + name, value);
  });
  for (std::size_t group = 0; group < kNoiseGroups; ++group)
    if (const NoiseAverages& noise = state.adaptation.noise[group];
        group == 0 || noise != NoiseAverages{})
      for_noise(noise, group, [&](const std::string& name, const auto& value) {
        to.set("adaptation/" + name, value);
      });
  if (options.adapts()) put_profile(to, state.adaptation.profile);
  for (std::size_t i = 0; i < state.previous.gradients.size(); ++i)
    put(to, "previous/" + state.parameters[i].first, state.previous.gradients[i]);
  if (state.previous.batch > 0) to.set("adaptation/previous_batch", state.previous.batch);
  for (const auto& [name, value] : options.mathematics()) to.set("options/" + name, value);
  return to;
}

void restore(TrainingState& state, const Options& options, const checkpoint::State& from) {
  compare_options(options, from);
  try {
    const auto samples = from.get<std::int64_t>("data/samples");
    if (samples != whole(state.sampler.size()))
      throw UsageError(
          fmt::format("the checkpoint was made with {} training samples, --data {} "
                      "has {}",
                      samples, options.data, state.sampler.size()));
    require_no_more(state, from);
    for (const auto& [path, tensor] : paths_of(state)) take(from, path, tensor);
    take_averages(state.average, from);
    take(from, "rng/torch", state.generator);
    state.optimizer->set_updates(from.get<std::int64_t>("optimizer/updates"));
    state.sampler.seek({static_cast<std::uint64_t>(from.get<std::int64_t>("data/pass")),
                        static_cast<std::uint64_t>(from.get<std::int64_t>("data/offset"))});
    state.step = from.get<std::int64_t>("progress/step");
    state.samples = static_cast<std::uint64_t>(from.get<std::int64_t>("progress/sample"));
    state.pass_sums = {from.get<double>("progress/pass_loss_sum"),
                       from.get<double>("progress/pass_correct"),
                       from.get<double>("progress/pass_targets")};
    restore_adaptation(state, options, from);
  } catch (const std::out_of_range& e) {
    throw UsageError(std::string("the checkpoint is not one of a training: ") + e.what());
  }
}

}  // namespace bellows::trainer
