// SPDX-License-Identifier: Apache-2.0
#include "scheduler/policy/sharing.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

#include "scheduler/policy/worth.h"

namespace bellows::scheduler {
namespace {

constexpr int kNobody = -1;

/// A node that can be given out, or will be free soon.
struct Slot {
  const NodeView* node = nullptr;
  int owner = kNobody;    // the job that has it
  int given = kNobody;    // the job that is to have it
  bool free = false;      // idle, or about to be
  bool taken = false;     // by a job in the queue, or by one that has asked for it
  std::size_t place = 0;  // in which the job that is to have it gets it
};

class Sharing {
 public:
  Sharing(const ClusterPolicy& policy, const Surroundings& around)
      : policy_(policy), around_(around), shares_(around.jobs.size()) {
    for (const ElasticJob& job : around.jobs) models_.emplace_back(job.speeds);
    find_slots();
  }

  std::map<JobId, Decision> run() {
    keep_least();
    reserve_coming();
    for (const JobView& job : around_.pending) claim(job);
    if (!policy_.redistributes()) keep_rest();
    give_out();
    if (policy_.redistributes()) keep_rest();  // what nobody gains from stays where it is
    return decisions();
  }

 private:
  // Where a job can grow: in its own partition, and where it may have companions.
  struct Place {
    const std::vector<char>* usable = nullptr;  // by slot
    int room = 0;                               // further nodes that it may have there
  };
  struct Share {
    std::vector<std::size_t> slots;  // that it holds, the last one to be given back first
    std::vector<Place> places;
    int nodes = 0;  // given so far
    bool takes_part = false;
  };

  void find_slots() {
    std::map<std::string, std::size_t> by_name;
    for (const NodeView& node : around_.nodes) {
      if (node.state == NodeState::down) continue;
      by_name[node.name] = slots_.size();
      slots_.push_back({&node, kNobody, kNobody, node.state == NodeState::idle, false, 0});
    }
    for (std::size_t j = 0; j < shares_.size(); ++j) {
      const ElasticJob& job = around_.jobs[j];
      Share& share = shares_[j];
      share.takes_part = !job.manual && !job.busy();
      for (const std::string& name : job.held | std::views::reverse) {
        const auto found = by_name.find(name);
        if (found == by_name.end()) {
          ++share.nodes;  // it is down, and still the job's
          continue;
        }
        Slot& slot = slots_[found->second];
        slot.owner = static_cast<int>(j);
        slot.free = job.going.contains(name);
        share.slots.push_back(found->second);
      }
    }
    for (std::size_t j = 0; j < shares_.size(); ++j) {
      const ElasticJob& job = around_.jobs[j];
      const auto all = static_cast<int>(slots_.size());
      shares_[j].places.push_back({&usable_in(job.partition, job.features), all});
      for (const ElasticPlace& place : job.places) {
        shares_[j].places.push_back({&usable_in(place.partition, place.features), place.most});
      }
    }
  }

  // Jobs can use the same nodes of the same partition and features.
  const std::vector<char>& usable_in(const std::string& partition, const std::string& features) {
    const auto [found, added] = usable_.try_emplace({partition, features});
    if (added) {
      JobView as_pending;
      as_pending.partition = partition;
      as_pending.shape.features = features;
      found->second = fitting(as_pending);
    }
    return found->second;
  }

  bool is_usable(std::size_t slot, std::size_t job) const {
    return std::ranges::any_of(shares_[job].places,
                               [&](const Place& place) { return (*place.usable)[slot] != 0; });
  }

  std::vector<char> fitting(const JobView& pending) const {
    const std::set<std::string> names = nodes_for(pending, around_.nodes);
    std::vector<char> fits;
    for (const Slot& slot : slots_) fits.push_back(names.contains(slot.node->name) ? 1 : 0);
    return fits;
  }

  void give(std::size_t slot, std::size_t job) {
    slots_[slot].given = static_cast<int>(job);
    ++shares_[job].nodes;
  }

  void keep_least() {
    for (std::size_t j = 0; j < shares_.size(); ++j) {
      const ElasticJob& job = around_.jobs[j];
      Share& share = shares_[j];
      for (const std::size_t slot : share.slots) {
        if (!share.takes_part || job.fixed.contains(slots_[slot].node->name)) give(slot, j);
      }
      for (const std::size_t slot : share.slots) {
        if (share.nodes >= job.bounds.least) break;
        if (slots_[slot].given == kNobody) give(slot, j);
      }
    }
  }

  // Idle nodes that are on their way to a job.
  void reserve_coming() {
    for (std::size_t j = 0; j < shares_.size(); ++j) {
      int coming = around_.jobs[j].coming;
      for (std::size_t s = 0; s < slots_.size() && coming > 0; ++s) {
        if (!slots_[s].free || slots_[s].taken || !is_usable(s, j)) continue;
        slots_[s].taken = true;
        --coming;
      }
    }
  }

  static bool can_claim(const Slot& slot, const JobView& pending) {
    if (slot.taken) return false;
    return slot.free || (slot.owner == kNobody && has_room(*slot.node, pending));
  }

  // Nothing is taken for a job that could not start all the same.
  void claim(const JobView& pending) {
    const std::vector<char> fits = fitting(pending);
    auto missing = static_cast<std::size_t>(nodes_needed(pending, around_.nodes));
    std::vector<std::size_t> claimed;
    for (std::size_t s = 0; s < slots_.size() && claimed.size() < missing; ++s) {
      if (fits[s] != 0 && can_claim(slots_[s], pending)) claimed.push_back(s);
    }
    std::vector<int> spare(shares_.size());
    for (const Slot& slot : slots_) {
      if (slot.owner != kNobody) spare[static_cast<std::size_t>(slot.owner)] += is_spare(slot);
    }
    while (claimed.size() < missing) {
      // From whom has most to spare, and there the one that came last.
      std::optional<std::size_t> best;
      int most = 0;
      for (std::size_t j = 0; j < shares_.size(); ++j) {
        if (spare[j] <= most) continue;
        for (const std::size_t s : shares_[j].slots) {
          if (fits[s] == 0 || !is_spare(slots_[s]) || std::ranges::count(claimed, s) > 0) continue;
          best = s;
          most = spare[j];
        }
      }
      if (!best) return;
      claimed.push_back(*best);
      --spare[static_cast<std::size_t>(slots_[*best].owner)];
    }
    for (const std::size_t s : claimed) {
      slots_[s].taken = true;
      if (slots_[s].owner != kNobody && !slots_[s].free) {
        reasons_[static_cast<std::size_t>(slots_[s].owner)] =
            "job " + std::to_string(pending.id) + " can start";
      }
    }
  }

  static bool is_spare(const Slot& slot) {
    return slot.owner != kNobody && slot.given == kNobody && !slot.taken && !slot.free;
  }

  int unit_of(std::size_t job) const {
    const Bounds& bounds = around_.jobs[job].bounds;
    const int now = shares_[job].nodes;
    for (int size = now + 1; size <= std::min(bounds.most, now + bounds.step); ++size) {
      if (allowed_size(bounds, size) == size) return size - now;
    }
    return 0;
  }

  Candidate candidate(std::size_t job) const {
    return {&around_.jobs[job], &models_[job], shares_[job].nodes, unit_of(job)};
  }

  void keep_rest() {
    for (std::size_t j = 0; j < shares_.size(); ++j) {
      if (!shares_[j].takes_part) continue;
      std::vector<std::size_t> own;
      for (const std::size_t s : shares_[j].slots) {
        if (is_spare(slots_[s])) own.push_back(s);
      }
      while (true) {
        const Candidate one = candidate(j);
        if (one.unit == 0 || own.size() < static_cast<std::size_t>(one.unit) ||
            !policy_.keeps(one)) {
          break;
        }
        for (int i = 0; i < one.unit; ++i) {
          give(own.front(), j);
          own.erase(own.begin());
        }
      }
    }
  }

  bool is_given_out(std::size_t slot) const {
    return slots_[slot].taken || slots_[slot].given != kNobody;
  }

  // For a job that does not have it.
  bool is_available(std::size_t slot, const Place& place) const {
    const Slot& one = slots_[slot];
    if (is_given_out(slot) || (*place.usable)[slot] == 0) return false;
    return one.owner == kNobody ? one.free : !one.free && policy_.redistributes();
  }

  struct Unit {
    std::vector<std::size_t> slots;
    std::size_t place = 0;
  };

  void enter(const Unit& unit, std::size_t job) {
    for (const std::size_t s : unit.slots) {
      if (slots_[s].owner == static_cast<int>(job)) continue;
      slots_[s].place = unit.place;
      --shares_[job].places[unit.place].room;
    }
  }

  // Its own first, then idle ones, then those of others: of one place, since a growth has all of
  // its nodes from one.
  Unit unit_for(std::size_t job, int unit) {
    Unit own;
    for (const std::size_t s : shares_[job].slots) {
      if (static_cast<int>(own.slots.size()) == unit) return own;
      if (!is_given_out(s)) own.slots.push_back(s);
    }
    if (static_cast<int>(own.slots.size()) == unit) return own;
    for (const bool from_others : {false, true}) {
      for (std::size_t place = 0; place < shares_[job].places.size(); ++place) {
        Unit found{own.slots, place};
        if (complete(job, unit, from_others, found.slots, shares_[job].places[place])) return found;
      }
    }
    return {};
  }

  bool complete(std::size_t job, int unit, bool from_others, std::vector<std::size_t>& found,
                const Place& place) const {
    if (unit - static_cast<int>(found.size()) > place.room) return false;
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      if (static_cast<int>(found.size()) == unit) return true;
      if (slots_[s].owner == kNobody && is_available(s, place)) found.push_back(s);
    }
    while (static_cast<int>(found.size()) < unit) {
      const std::optional<std::size_t> other =
          from_others ? spare_of_others(job, place, found) : std::nullopt;
      if (!other) return false;
      found.push_back(*other);
    }
    return true;
  }

  // From whom has most to spare, the node that would be given back first.
  std::optional<std::size_t> spare_of_others(std::size_t job, const Place& place,
                                             const std::vector<std::size_t>& found) const {
    std::optional<std::size_t> best;
    std::size_t most = 0;
    for (std::size_t j = 0; j < shares_.size(); ++j) {
      if (j == job) continue;
      std::optional<std::size_t> last;
      std::size_t count = 0;
      for (const std::size_t s : shares_[j].slots) {
        if (!is_available(s, place) || std::ranges::count(found, s) > 0) continue;
        last = s;
        ++count;
      }
      if (count <= most) continue;
      most = count;
      best = last;
    }
    return best;
  }

  bool would_gain(std::size_t job) const {
    const ElasticJob& one = around_.jobs[job];
    return gains(one.hints, one.speeds, shares_[job].nodes, unit_of(job));
  }

  void give_out() {
    std::vector<std::size_t> jobs;
    for (std::size_t j = 0; j < shares_.size(); ++j) {
      if (shares_[j].takes_part) jobs.push_back(j);
    }
    while (true) {
      std::vector<Candidate> candidates;
      std::erase_if(jobs, [&](std::size_t j) { return unit_of(j) == 0 || !would_gain(j); });
      for (const std::size_t j : jobs) candidates.push_back(candidate(j));
      if (candidates.empty()) return;
      const std::optional<std::size_t> next = policy_.next(candidates);
      if (!next) return;
      const Unit unit = unit_for(jobs[*next], candidates[*next].unit);
      if (unit.slots.empty()) {  // there is nothing that it could use, and that does not change
        jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(*next));
        continue;
      }
      for (const std::size_t s : unit.slots) give(s, jobs[*next]);
      enter(unit, jobs[*next]);
    }
  }

  std::map<JobId, Decision> decisions() const {
    std::map<JobId, Decision> all;
    for (std::size_t j = 0; j < shares_.size(); ++j) {
      if (!shares_[j].takes_part) continue;
      Decision decision;
      for (const std::size_t s : shares_[j].slots | std::views::reverse) {
        if (slots_[s].given != static_cast<int>(j)) {
          decision.give_back.push_back(slots_[s].node->name);
        }
      }
      // From the place that has most for it; it comes to the others when it is done.
      std::vector<int> from(shares_[j].places.size());
      for (const Slot& slot : slots_) {
        if (slot.given == static_cast<int>(j) && slot.owner == kNobody) ++from[slot.place];
      }
      const auto most = std::ranges::max_element(from);
      decision.grow = *most;
      decision.companion = static_cast<std::size_t>(most - from.begin());
      // One thing at a time; only to whole units.
      if (!decision.give_back.empty()) decision.grow = 0;
      const auto held = static_cast<int>(around_.jobs[j].held.size());
      decision.grow = allowed_size(around_.jobs[j].bounds, held + decision.grow) - held;
      if (decision.grow < 0) decision.grow = 0;
      if (decision.nothing()) continue;
      const auto reason = reasons_.find(j);
      if (decision.grow > 0) {
        decision.why = "idle nodes";
      } else {
        decision.why = reason != reasons_.end() ? reason->second : "its share of the cluster";
      }
      all[around_.jobs[j].id] = decision;
    }
    return all;
  }

  const ClusterPolicy& policy_;
  const Surroundings& around_;
  std::vector<Slot> slots_;
  std::vector<Share> shares_;
  std::vector<SpeedModel> models_;
  std::map<std::pair<std::string, std::string>, std::vector<char>> usable_;
  std::map<std::size_t, std::string> reasons_;
};

}  // namespace

Surroundings surroundings_of(std::vector<ElasticJob> elastic, const std::vector<JobView>& jobs,
                             std::vector<NodeView> nodes) {
  Surroundings around;
  std::set<JobId> bases;
  for (const ElasticJob& job : elastic) bases.insert(job.id);
  around.pending = queue_of(jobs, bases);
  around.jobs = std::move(elastic);
  around.nodes = std::move(nodes);
  return around;
}

std::map<JobId, Decision> decide(const ClusterPolicy& policy, const Surroundings& surroundings) {
  return Sharing(policy, surroundings).run();
}

}  // namespace bellows::scheduler
