// SPDX-License-Identifier: Apache-2.0
// A bellowsd on loopback, with a cluster that is a table, brokers, and a seal that says who sent
// it.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/broker/daemon_link.h"
#include "scheduler/daemon/daemon.h"

namespace bellows::test {

using namespace scheduler;
using protocol::Message;

/// Everybody says who they are, and is believed.
class FakeSealer : public protocol::Sealer {
 public:
  explicit FakeSealer(std::uint32_t user) : user_(user) {}
  Message seal(const Message& message) override {
    Message sealed("sealed", encode(message));
    sealed.head["user"] = user_;
    return sealed;
  }
  Message seal_for(const Message& message, std::uint32_t) override { return seal(message); }
  protocol::Opened open(const Message& sealed) override {
    if (sealed.type() != "sealed") throw protocol::CredentialError("not sealed");
    protocol::Decoder decoder;
    decoder.feed(sealed.body);
    return {decoder.next().value(), static_cast<std::uint32_t>(sealed.number("user"))};
  }

 private:
  std::uint32_t user_;
};

/// Jobs and nodes as the test sets them. Nothing can be asked for.
class TableCluster : public Cluster {
 public:
  void set(std::vector<JobView> jobs, std::vector<NodeView> nodes) {
    const std::lock_guard lock(mutex_);
    jobs_ = std::move(jobs);
    nodes_ = std::move(nodes);
  }
  void set_away(bool away) {
    const std::lock_guard lock(mutex_);
    away_ = away;
  }

  ClusterRules rules() override { return {}; }
  std::vector<JobView> jobs() override {
    const std::lock_guard lock(mutex_);
    if (away_) throw ClusterError(ClusterError::Kind::unreachable, "slurmctld does not answer");
    return jobs_;
  }
  std::vector<NodeView> nodes() override {
    const std::lock_guard lock(mutex_);
    return nodes_;
  }
  JobView job(JobId) override { return unexpected<JobView>(); }
  JobId expand(const JobView&, const NodeRequest&) override { return unexpected<JobId>(); }
  void merge(JobId, JobId) override { unexpected<int>(); }
  JobId submit_brick(const BrickRequest&) override { return unexpected<JobId>(); }
  void cancel(JobId) override { unexpected<int>(); }
  void shrink(JobId, const std::vector<std::string>&) override { unexpected<int>(); }

 private:
  template <typename T>
  T unexpected() {
    ADD_FAILURE() << "the daemon changes the cluster itself";
    return {};
  }
  std::mutex mutex_;
  std::vector<JobView> jobs_;
  std::vector<NodeView> nodes_;
  bool away_ = false;
};

/// A job's broker, which does what it is told at once.
class Broker {
 public:
  Broker(boost::asio::io_context& io, std::uint16_t port, ElasticJob as, std::uint32_t daemon = 0)
      : job(std::move(as)), sealer_(job.user) {
    DaemonLink::Handlers handlers;
    handlers.report = [this] { return job; };
    handlers.guided = [this](bool is) { guided = is; };
    handlers.order = [this](const Decision& order) {
      orders.push_back(order);
      if (on_order) on_order(order);
    };
    handlers.request = [this](const Message& request, const DaemonLink::Reply& reply) {
      requests.push_back(request);
      if (!answers) return;
      Message done("done");
      done.head["text"] = "granted";
      reply(done);
    };
    link =
        std::make_unique<DaemonLink>(io, "127.0.0.1", port, std::set<std::uint32_t>{daemon},
                                     sealer_, std::move(handlers), std::chrono::milliseconds(200));
  }

  ElasticJob job;
  std::vector<Decision> orders;
  std::vector<Message> requests;
  std::function<void(const Decision&)> on_order;
  bool guided = false;
  bool answers = true;
  std::unique_ptr<DaemonLink> link;

 private:
  FakeSealer sealer_;
};

class DaemonTest : public testing::Test {
 protected:
  DaemonTest() {
    spdlog::set_level(spdlog::level::off);
    settings.listen = "127.0.0.1";
    settings.port = 0;
    settings.interval = std::chrono::milliseconds(200);
    settings.pause = std::chrono::milliseconds(20);
    settings.forget = std::chrono::milliseconds(2000);
  }

  void start() {
    daemon = std::make_unique<Daemon>(io, settings, cluster, sealer);
    settings.port = daemon->port();
  }
  void stop() { daemon.reset(); }

  /// Lets everything happen until `what` is true. Limited.
  bool until(const std::function<bool()>& what,
             std::chrono::seconds limit = std::chrono::seconds(20)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!what()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io.restart();
      io.run_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  /// Long enough for several decisions.
  void settle() {
    until([] { return false; }, std::chrono::seconds(1));
  }

  /// A job of `user` on nodes n<first>..., as its broker reports it, and as Slurm sees it.
  static ElasticJob job(JobId id, std::uint32_t user, int first, int count, Bounds bounds) {
    ElasticJob job;
    job.id = id;
    job.user = user;
    job.manual = false;
    job.partition = "main";
    job.bounds = bounds;
    for (int i = first + count - 1; i >= first; --i) job.held.push_back("n" + std::to_string(i));
    job.fixed = {"n" + std::to_string(first)};
    return job;
  }
  static JobView view(const ElasticJob& job) {
    JobView view;
    view.id = job.id;
    view.user = job.user;
    view.state = JobState::running;
    view.partition = job.partition;
    view.name = "train";
    view.nodes = job.held;
    return view;
  }
  static std::vector<NodeView> nodes(int count, const std::vector<JobView>& jobs) {
    std::vector<NodeView> all;
    for (int i = 1; i <= count; ++i) {
      NodeView node;
      node.name = "n" + std::to_string(i);
      node.state = NodeState::idle;
      node.partitions = {"main"};
      for (const JobView& job : jobs) {
        for (const std::string& held : job.nodes) {
          if (held == node.name) node.state = NodeState::allocated;
        }
      }
      all.push_back(node);
    }
    return all;
  }
  void set_cluster(int count, std::vector<JobView> jobs) {
    std::vector<NodeView> all = nodes(count, jobs);
    cluster.set(std::move(jobs), std::move(all));
  }

  boost::asio::io_context io;
  TableCluster cluster;
  FakeSealer sealer{0};
  DaemonSettings settings;
  std::unique_ptr<Daemon> daemon;
};

}  // namespace bellows::test
