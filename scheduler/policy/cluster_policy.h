// SPDX-License-Identifier: Apache-2.0
// To whom of the elastic jobs the next node goes.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "scheduler/policy/elastic_job.h"
#include "scheduler/policy/speed_model.h"

namespace bellows::scheduler {

/// A job that could have another unit.
struct Candidate {
  const ElasticJob* job = nullptr;
  const SpeedModel* model = nullptr;
  int nodes = 0;  // that it has been given so far
  int unit = 1;   // how many it would get now
};

class ClusterPolicy {
 public:
  virtual ~ClusterPolicy() = default;
  /// The candidate that gets the next unit, of those who gain from it; none: the rest stays idle.
  virtual std::optional<std::size_t> next(std::span<const Candidate> candidates) const = 0;
  /// Whether a node may go from one job to another. If not, jobs keep what they have, as long as
  /// keeps() says so.
  virtual bool redistributes() const { return false; }
  virtual bool keeps(const Candidate& candidate) const;
};

/// "fair": equal numbers of nodes, within the bounds.
/// "afs": Apathetic Future Share (Hwang et al., NSDI'21): each unit goes to the winner of contests
///   between a shorter job l and a longer one h, by the remaining times r(k) with k nodes: l, if
///   r_l(k)/r_l(k+1) + r_h(k+1)/r_h(k) > 2.
/// "turbo": idle nodes go to those who gain most, relative to what they have.
/// "economic": as turbo, to those for whom a node brings at least `gain` of the mean of its others;
///   who has nodes that bring less gives them back.
/// Where a job says at what size it does best, and what pays, that counts: worth.h.
/// `arguments`: "K=V,K=V"; economic knows gain (0.5) and settle (30 s, how long a size must have
/// lasted). Throws std::invalid_argument naming what is wrong.
std::unique_ptr<ClusterPolicy> make_cluster_policy(const std::string& name,
                                                   const std::string& arguments = "");

}  // namespace bellows::scheduler
