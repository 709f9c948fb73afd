// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/logical_ranks.h"

#include <algorithm>
#include <functional>

#include "trainer/step/fitting.h"

namespace bellows::trainer {

namespace {

// Values that one rank gives to one all-gather.
constexpr std::int64_t kPiece = std::int64_t{1} << 19;
// Of each part: loss, correct, targets, square norms by group.
constexpr std::size_t kSums = 3 + kNoiseGroups;

void append_subtrees(Range tree, Range own, std::vector<Range>& all) {
  if (tree.begin >= own.end || tree.end <= own.begin) return;
  if (own.begin <= tree.begin && tree.end <= own.end) {
    all.push_back(tree);
    return;
  }
  const std::uint64_t middle = middle_of(tree);
  append_subtrees({tree.begin, middle}, own, all);
  append_subtrees({middle, tree.end}, own, all);
}

/// Sums `found(subtree)` up to the root; `found` gives an undefined tensor for what nobody has
/// computed in one.
torch::Tensor sum_tree(Range tree, const std::function<torch::Tensor(Range)>& found) {
  torch::Tensor whole = found(tree);
  if (whole.defined()) return whole;
  const std::uint64_t middle = middle_of(tree);
  return sum_tree({tree.begin, middle}, found) + sum_tree({middle, tree.end}, found);
}

}  // namespace

std::uint64_t middle_of(Range parts) { return parts.begin + (parts.size() + 1) / 2; }

std::vector<Range> subtrees(std::uint64_t whole, Range own) {
  std::vector<Range> all;
  append_subtrees({0, whole}, own, all);
  return all;
}

std::uint64_t logical_parts(const Options& options, Range batch) {
  return std::min(static_cast<std::uint64_t>(options.logical_ranks), batch.size());
}

LogicalRanks::LogicalRanks(const PassContext& context, Team& team)
    : context_(context), team_(team) {}

/// Gradients and, for models that have such, what has become of the buffers.
torch::Tensor LogicalRanks::flatten() const {
  const torch::NoGradGuard no_grad;
  const TrainingState& state = context_.state;
  std::vector<torch::Tensor> pieces;
  for (const auto& [name, parameter] : state.parameters)
    pieces.push_back(parameter.grad().reshape({-1}));
  const std::vector<torch::Tensor> now = state.model_buffers();
  for (std::size_t i = 0; i < state.buffers.size(); ++i)
    pieces.push_back(
        (now[i] - state.buffers[i].second).to(pieces.front().scalar_type()).reshape({-1}));
  return at::cat(pieces);
}

void LogicalRanks::spread(const torch::Tensor& flat, double parts) {
  const torch::NoGradGuard no_grad;
  TrainingState& state = context_.state;
  std::int64_t at = 0;
  const auto next = [&](const torch::Tensor& like) {
    at += like.numel();
    return flat.slice(0, at - like.numel(), at).view(like.sizes());
  };
  for (const auto& [name, parameter] : state.parameters) parameter.mutable_grad() = next(parameter);
  const std::vector<torch::Tensor> now = state.model_buffers();
  for (std::size_t i = 0; i < state.buffers.size(); ++i) {
    const torch::Tensor& before = state.buffers[i].second;
    torch::Tensor change = next(before) / parts;
    // Counters count alike in all parts.
    if (!before.is_floating_point()) change = change.round();
    now[i].copy_(before + change);
  }
}

/// Of the parts of a subtree, one after the other, so that few gradients are in memory.
torch::Tensor LogicalRanks::gradient_of(Range parts, Range batch, std::int64_t micro_batch,
                                        std::span<double> sums) {
  if (parts.size() > 1) {
    const std::uint64_t middle = middle_of(parts);
    torch::Tensor first = gradient_of({parts.begin, middle}, batch, micro_batch, sums);
    return first + gradient_of({middle, parts.end}, batch, micro_batch, sums);
  }
  TrainingState& state = context_.state;
  const auto part = static_cast<int>(parts.begin);
  const auto ids = state.sampler.samples(share(batch, part, static_cast<int>(sums.size() / kSums)));
  const double weight = 1 / (static_cast<double>(batch.size()) *
                             static_cast<double>(context_.dataset.shape().targets()));
  const auto keep = [&](const Sums& own) {
    const std::span<double> at = sums.subspan(kSums * parts.begin, kSums);
    at[0] = own.loss;
    at[1] = own.correct;
    at[2] = own.targets;
  };
  if (fits_ > 0) micro_batch = std::min(micro_batch, fits_);
  if (fits_ > 0 && state.norms) state.norms->spoil();
  const std::int64_t fitted =
      run_fitting(context_, team_.rank(), ids, {micro_batch}, weight, keep, nullptr);
  if (fitted < micro_batch) fits_ = fitted;
  context_.clock.lap(StepClock::kBackward);
  if (state.norms)
    std::ranges::copy(state.norms->sums(), sums.subspan(kSums * parts.begin + 3).begin());
  return flatten();
}

/// `own` has the sums of this rank's subtrees.
torch::Tensor LogicalRanks::sum(std::uint64_t whole, const std::vector<torch::Tensor>& own) {
  const torch::NoGradGuard no_grad;
  std::vector<std::pair<Range, std::pair<std::int64_t, std::int64_t>>> places;  // rank, row
  std::int64_t rows = 0;
  for (int rank = 0; rank < team_.size(); ++rank) {
    const auto theirs = subtrees(whole, share({0, whole}, rank, team_.size()));
    for (std::size_t row = 0; row < theirs.size(); ++row)
      places.push_back({theirs[row], {rank, static_cast<std::int64_t>(row)}});
    rows = std::max(rows, static_cast<std::int64_t>(theirs.size()));
  }
  std::int64_t length = 0;
  for (const auto& [name, tensor] : context_.state.parameters) length += tensor.numel();
  for (const auto& [name, tensor] : context_.state.buffers) length += tensor.numel();
  const auto like = context_.state.parameters.front().second.detach().options();
  torch::Tensor total = torch::empty({length}, like);
  const std::int64_t piece = std::max<std::int64_t>(1, kPiece / rows);
  for (std::int64_t first = 0; first < length; first += piece) {
    const std::int64_t end = std::min(length, first + piece);
    torch::Tensor input = torch::zeros({rows, end - first}, like);
    for (std::size_t row = 0; row < own.size(); ++row)
      input[static_cast<std::int64_t>(row)].copy_(own[row].slice(0, first, end));
    torch::Tensor all = torch::empty({team_.size(), rows, end - first}, like);
    team_.backend()->_allgather_base(all, input)->wait();
    total.slice(0, first, end).copy_(sum_tree({0, whole}, [&](Range tree) {
      for (const auto& [range, place] : places)
        if (range == tree) return all[place.first][place.second];
      return torch::Tensor();
    }));
  }
  return total;
}

Sums LogicalRanks::step(Range batch, std::int64_t micro_batch, std::vector<double>& words,
                        std::vector<double>& squares) {
  const std::uint64_t whole = logical_parts(context_.options, batch);
  std::vector<double> sums(kSums * whole, 0);
  std::vector<torch::Tensor> own;
  for (const Range tree : subtrees(whole, share({0, whole}, team_.rank(), team_.size())))
    own.push_back(gradient_of(tree, batch, micro_batch, sums));
  // Others add zeros: exact.
  const std::size_t extra = words.size();
  words.insert(words.end(), sums.begin(), sums.end());
  torch::Tensor both = torch::tensor(words, torch::kFloat64);
  Pending counters = team_.sum(both);
  const torch::Tensor total = sum(whole, own);
  counters.wait();
  context_.clock.lap(StepClock::kAgreement, counters.ended());
  context_.clock.lap(StepClock::kCommunication);
  const auto* word = both.const_data_ptr<double>();
  words.assign(word, word + extra);
  squares.assign(kNoiseGroups, 0);
  Sums result;
  for (std::uint64_t part = 0; part < whole; ++part) {
    const double* at = word + extra + kSums * part;
    result.add({at[0], at[1], at[2]});
    for (std::size_t group = 0; group < kNoiseGroups; ++group) squares[group] += at[3 + group];
  }
  spread(total, static_cast<double>(whole));
  return result;
}

}  // namespace bellows::trainer
