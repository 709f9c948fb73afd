// SPDX-License-Identifier: Apache-2.0
// Ways to get nodes for a job, asked for one after the other until one of them is granted:
// expansion of the allocation, companion jobs in one place or another.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/broker/resize.h"

namespace bellows::scheduler {

struct Grant {
  JobView job;  // the expansion, not merged yet, or the brick
  bool expansion = false;
  std::string how;  // for people
};

/// Cancels all that was asked for and not taken when it goes.
class Offers {
 public:
  Offers(Desk& desk, const Holdings& holdings, bool may_expand, NodeRequest nodes,
         std::size_t component);
  Offers(const Offers&) = delete;
  Offers& operator=(const Offers&) = delete;
  ~Offers();

  /// Waits for the first grant. Throws Refused: Slurm refuses all, the deadline, `stop`.
  Grant wait(Time deadline, const StopWaiting& stop);
  /// The grant is the caller's business now.
  void taken(const Grant& grant);
  /// The grant has turned out to be worth nothing, and is asked for anew; `for_good`: not there.
  void worthless(const Grant& grant, const std::string& why, bool for_good);

 private:
  struct Place {
    bool expansion = false;
    BrickRequest brick;
    std::string how;
    int tries = 0;
  };
  struct Offer {
    JobId id = 0;
    Place place;
    std::string pending;  // why, as last seen
  };
  void add_bricks(const Holdings& holdings, const NodeRequest& nodes);
  void ask_next();
  void cancel_lost();
  void ask_again(Place place, const std::string& why);
  std::optional<Grant> look();
  std::string reasons() const;

  Desk& desk_;
  JobView grower_;
  NodeRequest nodes_;
  std::vector<Place> places_;  // not asked yet
  std::vector<Offer> offers_;
  std::optional<Place> instead_;  // of an expansion that cannot be merged
  std::vector<std::string> refused_;
  std::set<JobId> bricks_;  // that the job had before
  bool lost_ = false;       // a request was sent, and nobody knows what became of it
};

}  // namespace bellows::scheduler
