// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/common/node_report.h"

#include <algorithm>
#include <boost/json.hpp>
#include <map>

#include "protocol/message.h"

namespace bellows::elastic {
namespace json = boost::json;

namespace {

json::object to_json(const RankReport& rank) {
  json::object object{
      {"member", rank.member},       {"pid", rank.pid},           {"seconds", rank.seconds},
      {"connected", rank.connected}, {"elastic", rank.elastic},   {"ready", rank.ready},
      {"dismissed", rank.dismissed}, {"released", rank.released}, {"entered", rank.entered},
      {"left", rank.left},           {"trouble", rank.trouble}};
  if (rank.abort_status) object["abort_status"] = *rank.abort_status;
  if (rank.end) object["end"] = *rank.end;
  return object;
}

RankReport rank_from_json(const json::object& object) {
  RankReport rank;
  rank.member = json::value_to<std::uint64_t>(object.at("member"));
  rank.pid = json::value_to<std::int64_t>(object.at("pid"));
  rank.seconds = object.at("seconds").to_number<double>();
  rank.connected = object.at("connected").as_bool();
  rank.elastic = object.at("elastic").as_bool();
  rank.ready = object.at("ready").as_bool();
  rank.dismissed = object.at("dismissed").as_bool();
  rank.released = object.at("released").as_bool();
  rank.entered = json::value_to<std::uint32_t>(object.at("entered"));
  rank.left = json::value_to<std::uint32_t>(object.at("left"));
  rank.trouble = json::value_to<std::uint32_t>(object.at("trouble"));
  if (object.contains("abort_status")) {
    rank.abort_status = json::value_to<int>(object.at("abort_status"));
  }
  if (object.contains("end")) rank.end = object.at("end").as_object();
  return rank;
}

// Of a member whose node has come back.
MemberState state_of(const RankReport& rank, bool in_a_world, bool in_newest) {
  if (rank.end) return in_newest ? MemberState::running : MemberState::dead;
  if (rank.dismissed) return MemberState::leaving;
  return in_a_world ? MemberState::running : MemberState::joining;
}

// A member of the newest world that has told of trouble in it, or left it, needs another.
bool needs_another(const RankReport& rank, std::uint32_t epoch) {
  return !rank.end && (rank.trouble >= epoch || rank.left >= epoch);
}

}  // namespace

json::object to_json(const NodeReport& report) {
  json::array worlds, ranks;
  for (const WorldSpec& world : report.worlds) worlds.push_back(to_json(world));
  for (const RankReport& rank : report.ranks) ranks.push_back(to_json(rank));
  return {{"node", report.node},
          {"worlds", worlds},
          {"ranks", ranks},
          {"context", report.context},
          {"failed", report.failed}};
}

NodeReport node_report_from_json(const json::object& object) {
  try {
    NodeReport report;
    report.node = json::value_to<std::string>(object.at("node"));
    for (const json::value& world : object.at("worlds").as_array()) {
      report.worlds.push_back(world_spec_from_json(world.as_object()));
    }
    for (const json::value& rank : object.at("ranks").as_array()) {
      report.ranks.push_back(rank_from_json(rank.as_object()));
    }
    report.context = json::value_to<std::uint64_t>(object.at("context"));
    report.failed = json::value_to<std::uint64_t>(object.at("failed"));
    return report;
  } catch (const protocol::ProtocolError&) {
    throw;
  } catch (const std::exception& wrong) {
    throw protocol::ProtocolError(std::string("a node's report is wrong: ") + wrong.what());
  }
}

FoundJob restore(Membership& membership, const std::vector<NodeReport>& reports) {
  FoundJob found;
  for (const NodeReport& report : reports) {
    for (const WorldSpec& world : report.worlds) membership.restore_world(world);
    found.context = std::max(found.context, report.context);
    found.broken = found.broken || report.failed > 0;
  }
  const WorldSpec* newest = membership.newest();
  std::map<std::uint64_t, std::string> in_newest;  // member -> node
  if (newest != nullptr) {
    for (std::size_t rank = 0; rank < newest->members.size(); ++rank) {
      in_newest[newest->members[rank]] = newest->node_of(static_cast<std::int64_t>(rank))->name;
    }
  }
  std::set<std::uint64_t> in_worlds;
  for (const auto& [nspace, world] : membership.worlds()) {
    in_worlds.insert(world.members.begin(), world.members.end());
  }
  found.gone = in_worlds;
  for (const NodeReport& report : reports) {
    for (const RankReport& rank : report.ranks) {
      const bool is_in = in_newest.erase(rank.member) > 0;
      const MemberState state = state_of(rank, in_worlds.contains(rank.member), is_in);
      membership.restore_member({rank.member, report.node, state});
      if (!rank.end || is_in) found.gone.erase(rank.member);
      if (state == MemberState::leaving && !rank.released) found.held.insert(rank.member);
      if (!is_in || rank.end) continue;
      if (rank.entered < newest->epoch) found.not_entered.insert(rank.member);
      found.broken = found.broken || needs_another(rank, newest->epoch);
    }
  }
  for (const auto& [member, node] : in_newest) {
    membership.restore_member({member, node, MemberState::running});
    found.lost.insert(member);
    found.gone.erase(member);
  }
  // The first world's programs may still be loading; a later one was about to be entered.
  if (newest != nullptr && newest->epoch > 1 && !found.not_entered.empty()) found.broken = true;
  return found;
}

}  // namespace bellows::elastic
