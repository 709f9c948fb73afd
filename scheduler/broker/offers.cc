// SPDX-License-Identifier: Apache-2.0
#include "scheduler/broker/offers.h"

#include <algorithm>
#include <utility>

#include "scheduler/broker/brick_script.h"
#include "scheduler/cluster/node_list.h"

namespace bellows::scheduler {
namespace {

using Kind = ClusterError::Kind;

// Often at first, since most grants come at once, then rarely: Slurm has others to serve.
constexpr Seconds kFirstLook{0.05};
constexpr Seconds kLongestPause{2};
constexpr int kMostTries = 5;

}  // namespace

Offers::Offers(Desk& desk, const Holdings& holdings, bool may_expand, NodeRequest nodes,
               std::size_t component)
    : desk_(desk), nodes_(std::move(nodes)) {
  if (component >= holdings.base.size()) {
    throw Refused("the job has no component " + std::to_string(component));
  }
  grower_ = holdings.base[component];
  // slurmctld does not merge jobs that have a generic resource (select_p_job_expand, "has allocated
  // GRES"), and ends the one that was to be merged before it finds out.
  if (may_expand && !desk_.no_merging && !grower_.has_gres && nodes_.companion == 0) {
    places_.push_back({.expansion = true, .brick = {}, .how = "expansion"});
  }
  for (const JobView& brick : holdings.bricks) bricks_.insert(brick.id);
  add_bricks(holdings, nodes_);
  std::ranges::reverse(places_);
}

void Offers::add_bricks(const Holdings& holdings, const NodeRequest& nodes) {
  const JobView& base = holdings.base[0];
  const std::chrono::minutes limit = brick_limit(base, desk_.now());
  std::vector<protocol::CompanionPlace> companions = desk_.settings.companions;
  const bool beside = companions.empty();  // the job itself, where it cannot be expanded
  if (beside) companions.emplace_back();
  for (std::size_t i = 0; i < companions.size(); ++i) {
    if (nodes.companion != 0 && nodes.companion != i + 1) continue;
    const protocol::CompanionPlace& place = companions[i];
    const std::string partition = place.partition.empty() ? grower_.partition : place.partition;
    if (limit.count() < 1) {
      if (beside && !places_.empty()) return;
      refused_.push_back("the job ends in less than a minute");
      continue;
    }
    int there = nodes.count;
    for (const JobView& brick : holdings.bricks) {
      if (brick.partition == partition) there += static_cast<int>(brick.nodes.size());
    }
    if (place.most && there > *place.most) {
      refused_.push_back("companion jobs in " + partition + " may have " +
                         std::to_string(*place.most) + " nodes");
      continue;
    }
    BrickRequest brick;
    brick.base = base.id;
    brick.name = base.name;
    brick.comment = brick_comment(base.id);
    brick.partition = partition;
    brick.qos = place.qos.empty() && place.partition.empty() ? grower_.qos : place.qos;
    brick.account = place.account.empty() ? base.account : place.account;
    brick.shape = grower_.shape;
    if (!place.features.empty()) brick.shape.features = place.features;
    if (!place.gres.empty()) brick.shape.gres = place.gres;
    brick.nodes = nodes;
    brick.limit = limit;
    brick.script = brick_script(base, desk_.settings.brick_poll, desk_.settings.suspended);
    Place found{
        .expansion = false, .brick = std::move(brick), .how = "a companion job in " + partition};
    if (beside && !places_.empty()) {
      instead_ = std::move(found);
    } else {
      places_.push_back(std::move(found));
    }
  }
}

Offers::~Offers() {
  try {
    if (lost_) cancel_lost();
  } catch (const ClusterError&) {
    lost_ = false;  // the next look at everything finds it
  }
  for (const Offer& offer : offers_) {
    cancel(desk_, offer.id);
    desk_.offers.erase(offer.id);
  }
}

// What an answer would have told of.
void Offers::cancel_lost() {
  const Holdings now = desk_.holdings();
  for (const JobView& job : now.expansions) {
    if (!desk_.offers.contains(job.id)) desk_.cluster.cancel(job.id);
  }
  for (const JobView& job : now.bricks) {
    if (!desk_.offers.contains(job.id) && !bricks_.contains(job.id)) desk_.cluster.cancel(job.id);
  }
  lost_ = false;
}

void Offers::ask_next() {
  if (lost_) cancel_lost();
  while (!places_.empty()) {
    Place place = std::move(places_.back());
    places_.pop_back();
    try {
      const JobId id = place.expansion ? desk_.cluster.expand(grower_, nodes_)
                                       : desk_.cluster.submit_brick(place.brick);
      desk_.offers.insert(id);
      desk_.to_cancel.erase(id);  // a controller that has crashed gives numbers once more
      offers_.push_back({id, std::move(place), ""});
      return;
    } catch (const ClusterError& failed) {
      if (failed.kind() == Kind::unreachable) {
        places_.push_back(std::move(place));
        lost_ = true;
        throw;
      }
      refused_.push_back(place.how + ": " + failed.what());
    }
  }
}

void Offers::ask_again(Place place, const std::string& why) {
  if (++place.tries < kMostTries) {
    places_.push_back(std::move(place));
  } else {
    refused_.push_back(place.how + ": " + why);
  }
}

std::optional<Grant> Offers::look() {
  for (auto offer = offers_.begin(); offer != offers_.end();) {
    std::string over;
    bool forgotten = false;
    try {
      const JobView job = desk_.cluster.job(offer->id);
      if (job.user != grower_.user || !is_companion(job, desk_.settings.base)) {
        throw ClusterError(Kind::unknown_job, "the number of job " + std::to_string(offer->id) +
                                                  " is another job's now");
      }
      if (job.state == JobState::running && !job.nodes.empty()) {
        std::string how = offer->place.expansion
                              ? "expansion"
                              : "companion job " + std::to_string(job.id) + " in " + job.partition;
        return Grant{job, offer->place.expansion, std::move(how)};
      }
      offer->pending = job.reason;
      if (job.state == JobState::ended || job.state == JobState::ending) {
        over = "job " + std::to_string(job.id) + " was ended (" + job.reason + ")";
      }
    } catch (const ClusterError& failed) {
      if (failed.kind() == Kind::unreachable) throw;
      over = failed.what();
      forgotten = failed.kind() == Kind::unknown_job;
    }
    if (over.empty()) {
      ++offer;
      continue;
    }
    // A controller that has crashed may have lost the newest requests.
    if (!forgotten) offer->place.tries = kMostTries;
    ask_again(offer->place, over);
    desk_.offers.erase(offer->id);
    offer = offers_.erase(offer);
  }
  return std::nullopt;
}

Grant Offers::wait(Time deadline, const StopWaiting& stop) {
  Time next = desk_.now();
  Seconds pause = kFirstLook;
  while (true) {
    bool reached = true;
    try {
      if (offers_.empty() || desk_.now() >= next) {
        ask_next();
        next = desk_.now() + std::chrono::duration_cast<Time::duration>(desk_.settings.second);
      }
      if (std::optional<Grant> grant = look()) return std::move(*grant);
      if (offers_.empty() && places_.empty()) throw Refused(reasons());
    } catch (const ClusterError& failed) {
      if (failed.kind() != Kind::unreachable) throw Refused(failed.what());
      if (desk_.now() >= deadline) throw Refused(failed.what());
      reached = false;
    }
    if (const std::string why = stop(); !why.empty()) throw Refused(why);
    if (desk_.now() >= deadline) throw Refused("no nodes in time: " + reasons());
    if (offers_.empty() && reached) continue;  // the next place is asked at once
    if (!desk_.pace.wait(pause)) throw Refused("the job is ending");
    pause = std::min(pause * 1.5, kLongestPause);
  }
}

void Offers::taken(const Grant& grant) {
  desk_.offers.erase(grant.job.id);
  std::erase_if(offers_, [&](const Offer& offer) { return offer.id == grant.job.id; });
}

void Offers::worthless(const Grant& grant, const std::string& why, bool for_good) {
  const auto offer = std::ranges::find(offers_, grant.job.id, &Offer::id);
  if (for_good) {
    offer->place.tries = kMostTries;
    if (offer->place.expansion) {
      desk_.no_merging = true;
      if (instead_) places_.push_back(*std::exchange(instead_, std::nullopt));
    }
  }
  ask_again(offer->place, why);
  cancel(desk_, grant.job.id);
  taken(grant);
}

std::string Offers::reasons() const {
  std::vector<std::string> all = refused_;
  for (const Offer& offer : offers_) {
    all.push_back(offer.place.how + ": job " + std::to_string(offer.id) + " is pending" +
                  (offer.pending.empty() ? "" : " (" + offer.pending + ")"));
  }
  return all.empty() ? "Slurm has not answered" : join(all, "; ");
}

}  // namespace bellows::scheduler
