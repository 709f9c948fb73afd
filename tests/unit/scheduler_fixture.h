// SPDX-License-Identifier: Apache-2.0
// A simulated cluster with one elastic job on it, whose bellows-run is simulated too.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "scheduler/broker/care.h"
#include "scheduler/broker/resize.h"
#include "scheduler/cluster/simulated_cluster.h"

namespace bellows::scheduler {

/// Knows which nodes it has, and starts ranks on new ones, unless it is told otherwise.
class SimulatedRun final : public RunClient {
 public:
  explicit SimulatedRun(SimulatedTime& time) : time_(time) {}

  RunStatus now;
  std::map<std::string, std::string> failing;  // nodes whose agents do not start, and why
  bool hangs = false;                          // new ranks never get ready
  bool gone = false;
  std::string refuses_leaving;
  std::vector<std::string> log;
  std::vector<protocol::JobEvent> events;

  RunStatus status() override {
    check();
    return now;
  }

  Joined add_nodes(const std::vector<NewNode>& nodes, Seconds limit) override {
    check();
    Joined joined;
    for (const NewNode& node : nodes) {
      log.push_back("add " + node.name + (node.job.empty() ? "" : " by " + node.job));
    }
    if (hangs) {
      for (const NewNode& node : nodes) keep(node, 0);
      time_.wait(limit);
      throw RunError(RunError::Kind::overdue, "no answer in time");
    }
    time_.wait(Seconds(2));
    check();
    for (const NewNode& node : nodes) {
      const auto failed = failing.find(node.name);
      if (failed == failing.end()) {
        keep(node, node.ranks);
        joined.added.push_back(node.name);
      } else {
        keep(node, 0);
        joined.failed.emplace_back(node.name, failed->second);
      }
    }
    return joined;
  }

  void remove_nodes(const std::vector<std::string>& nodes, bool taken, Seconds) override {
    check();
    if (!taken && !refuses_leaving.empty()) {
      throw RunError(RunError::Kind::refused, refuses_leaving);
    }
    for (const std::string& node : nodes) {
      log.push_back((taken ? "taken " : "leave ") + node);
      std::erase_if(now.nodes, [&](const RunNode& one) {
        if (one.name == node) now.ranks -= one.ranks;
        return one.name == node;
      });
    }
  }

  void note(const protocol::JobEvent& event) override {
    check();
    events.push_back(event);
  }

  void keep(const NewNode& node, int ranks) {
    now.nodes.push_back({.name = node.name, .job = node.job, .ranks = ranks, .added = true});
    now.ranks += ranks;
  }

 private:
  void check() const {
    if (gone) throw RunError(RunError::Kind::gone, "no bellows-run listens");
  }
  SimulatedTime& time_;
};

/// Job 1 has n1 (of its script) and n2; n3, n4 are idle in `main`, s1 in `spot`.
class BrokerTest : public testing::Test {
 protected:
  BrokerTest() {
    for (const char* name : {"n1", "n2", "n3", "n4"}) cluster.add_node(name, {"main"});
    cluster.add_node("s1", {"spot"});
    base = cluster.start_job({"n1", "n2"}, "main", geteuid());
    settings.base = base;
    settings.bounds = {1, 8, 1};
    run.now.state = "steady";
    run.now.most = 8;
    run.now.nodes = {{.name = "n1", .job = "", .ranks = 1}, {.name = "n2", .job = "", .ranks = 1}};
    run.now.ranks = 2;
  }

  Time in(double seconds) const {
    return time.now() + std::chrono::duration_cast<Time::duration>(Seconds(seconds));
  }
  ResizeReport ask(const std::string& nodes, double limit = 60) {
    return resize(desk, parse_size_request(nodes), 0, in(limit), [this] { return stop; });
  }
  std::string refusal(const std::string& nodes, double limit = 60) {
    try {
      ask(nodes, limit);
      return "granted";
    } catch (const Refused& refused) {
      return refused.what();
    }
  }
  std::vector<std::string> nodes_of(JobId id) { return cluster.edit(id).nodes; }
  /// Nothing is left of a change that did not come true.
  void expect_as_before() {
    EXPECT_THAT(nodes_of(base), testing::ElementsAre("n1", "n2"));
    EXPECT_EQ(run.now.nodes.size(), 2U);
    for (const JobView& job : cluster.jobs()) {
      if (job.id != base && job.user == geteuid()) {
        EXPECT_EQ(job.state, JobState::ended) << job.comment;
      }
    }
    EXPECT_TRUE(desk.offers.empty());
    EXPECT_TRUE(desk.arriving.empty());
  }
  void look(int times = 1) {
    for (int i = 0; i < times; ++i) {
      EXPECT_TRUE(care.look(false));
      time.wait(settings.poll);
    }
  }

  SimulatedTime time;
  SimulatedCluster cluster{time};
  SimulatedRun run{time};
  BrokerSettings settings;
  std::vector<std::string> said;
  Guidance guidance;
  Desk desk{
      cluster,  run, time, settings, [this](const std::string& text) { said.push_back(text); },
      guidance, {},  {},   {},       {},
      {}};
  Care care{desk};
  JobId base = 0;
  std::string stop;
};

}  // namespace bellows::scheduler
