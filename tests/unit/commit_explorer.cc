// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/commit_explorer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <iterator>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace bellows::commit_model {

namespace {

std::uint64_t hash_of(const State& state) {
  static_assert(std::has_unique_object_representations_v<State>);
  constexpr std::size_t kWords = (sizeof(State) + 7) / 8;
  std::uint64_t words[kWords] = {};
  std::memcpy(words, &state, sizeof(State));
  std::uint64_t hash = 0x9e3779b97f4a7c15U;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0xbf58476d1ce4e5b9U;
    hash ^= hash >> 29;
  }
  hash = (hash ^ (hash >> 32)) * 0x94d049bb133111ebU;
  hash ^= hash >> 31;
  return hash != 0 ? hash : 1;
}

// The hashes of the states seen, in an open table.
class Seen {
 public:
  bool insert(std::uint64_t hash) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const bool fresh = place(hash);
    count_ += fresh ? 1 : 0;
    return fresh;
  }

 private:
  bool place(std::uint64_t hash) {
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at] != 0 && slots_[at] != hash) at = (at + 1) & (slots_.size() - 1);
    return std::exchange(slots_[at], hash) == 0;
  }
  void grow() {
    std::vector<std::uint64_t> old(slots_.size() * 2);
    old.swap(slots_);
    for (const std::uint64_t hash : old)
      if (hash != 0) place(hash);
  }

  std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(1 << 12);
  std::size_t count_ = 0;
};

// Plays the actions again, for people.
std::string story(const Model& model, const std::vector<Action>& actions,
                  const std::string& fault) {
  State state = model.first();
  std::string text = fault + "\nsteps of the ranks, and what happens then:\n";
  for (const Action action : actions) {
    text += "  " + model.describe(state) + "  " + model.describe(state, action) + "\n";
    model.apply(state, action);
  }
  return text + "  " + model.describe(state) + "\n";
}

// What is wrong with the state that `action` has led to, or nothing.
std::string check(const Model& model, const State& before, State& state, Action action) {
  std::string fault = model.apply(state, action);
  if (fault.empty() && progress(state) <= progress(before))
    fault = "an action that brings nothing forward: it can be repeated for ever";
  return fault;
}

bool goes_on(const std::vector<Action>& actions) {
  return std::any_of(actions.begin(), actions.end(), Model::is_protocol);
}

struct Node {
  std::size_t from;
  Action by;
};

std::vector<Action> path(const std::vector<Node>& nodes, std::size_t node) {
  std::vector<Action> actions;
  for (; node != 0; node = nodes[node].from) actions.push_back(nodes[node].by);
  std::reverse(actions.begin(), actions.end());
  return actions;
}

}  // namespace

std::uint64_t progress(const State& state) {
  std::uint64_t sum = 1'000'000ULL * state.newest + state.standing;
  for (const Rank& rank : state.ranks) {
    sum += rank.wanted_away;
    if (rank.life == Life::kUnborn) continue;
    if (rank.life != Life::kAlive) {
      sum += 1'000'000;
      continue;
    }
    sum += 1 + 10'000ULL * rank.epoch + 1'000ULL * static_cast<unsigned>(rank.stage);
    if (rank.stage == Stage::kOut) continue;
    const auto epoch = std::find_if(state.epochs.begin(), state.epochs.end(),
                                    [&](const Epoch& e) { return e.number == rank.epoch; });
    const Place& place = epoch->places[&rank - state.ranks.data()];
    sum += rank.received + place.sent + 20ULL * place.attempt + place.posted +
           static_cast<unsigned>(std::popcount(rank.completed));
  }
  return sum;
}

Findings explore(const Shape& shape, std::size_t limit) {
  const Model model(shape);
  Findings findings;
  Seen seen;
  std::vector<Node> nodes{{0, {}}};
  std::deque<std::pair<std::size_t, State>> waiting{{0, model.first()}};
  seen.insert(hash_of(waiting.front().second));
  for (; !waiting.empty(); waiting.pop_front()) {
    const auto& [node, state] = waiting.front();
    const auto actions = model.actions(state);
    if (!goes_on(actions)) {
      ++findings.ends;
      const std::string fault = model.end_fault(state);
      if (!fault.empty()) findings.fault = story(model, path(nodes, node), fault);
    }
    for (const Action action : actions) {
      ++findings.actions;
      State next = state;
      const std::string fault = check(model, state, next, action);
      if (!fault.empty()) {
        auto way = path(nodes, node);
        way.push_back(action);
        findings.fault = story(model, way, fault);
        break;
      }
      if (!seen.insert(hash_of(next))) continue;
      nodes.push_back({node, action});
      waiting.emplace_back(nodes.size() - 1, next);
    }
    if (!findings.fault.empty()) break;
    if (nodes.size() > limit) throw std::length_error("too many states to see them all");
  }
  findings.states = nodes.size();
  return findings;
}

Findings sample(const Shape& shape, std::size_t runs, std::uint64_t seed) {
  const Model model(shape);
  std::mt19937_64 draw(seed);
  Findings findings;
  for (std::size_t run = 0; run < runs && findings.fault.empty(); ++run) {
    State state = model.first();
    std::vector<Action> way;
    std::string fault;
    const std::uint64_t rarity = std::uint64_t{4} << draw() % 5;
    while (fault.empty()) {
      auto actions = model.actions(state);
      if (!goes_on(actions)) {
        ++findings.ends;
        fault = model.end_fault(state);
        break;
      }
      // What nobody wills is rare, and rarer in some runs than in others.
      std::vector<Action> rare;
      std::copy_if(actions.begin(), actions.end(), std::back_inserter(rare),
                   [](Action a) { return !Model::is_protocol(a); });
      std::erase_if(actions, [](Action a) { return !Model::is_protocol(a); });
      const auto& from = !rare.empty() && draw() % rarity == 0 ? rare : actions;
      const Action action = from[draw() % from.size()];
      const State before = state;
      way.push_back(action);
      fault = check(model, before, state, action);
    }
    findings.actions += way.size();
    if (!fault.empty()) findings.fault = story(model, way, fault);
  }
  findings.states = findings.actions;
  return findings;
}

}  // namespace bellows::commit_model
