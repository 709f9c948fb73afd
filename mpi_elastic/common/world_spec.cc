// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/common/world_spec.h"

#include <boost/json.hpp>

#include "protocol/message.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::ProtocolError;

namespace {

const json::value& at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr) throw ProtocolError("member \"" + std::string(name) + "\" is missing");
  return *value;
}

template <class T>
T get(const json::value& value, const char* what) {
  // boost::json throws its own types for a wrong kind or a value out of range.
  try {
    return json::value_to<T>(value);
  } catch (const std::exception&) {
    throw ProtocolError(std::string(what) + " has a wrong type or value");
  }
}

}  // namespace

json::value to_json(const std::vector<Proc>& procs) {
  json::array list;
  list.reserve(procs.size());
  for (const Proc& proc : procs) list.push_back(json::array{proc.nspace, proc.rank});
  return list;
}

std::vector<Proc> procs_from_json(const json::value& value) {
  const auto pairs = get<std::vector<json::array>>(value, "the list of processes");
  std::vector<Proc> procs;
  procs.reserve(pairs.size());
  for (const json::array& pair : pairs) {
    if (pair.size() != 2) throw ProtocolError("a process is not [nspace, rank]");
    procs.push_back(
        {get<std::string>(pair[0], "a namespace"), get<std::int64_t>(pair[1], "a rank")});
  }
  return procs;
}

std::string to_text(const Proc& proc) {
  return proc.nspace + ":" + (proc.rank == kAllRanks ? "*" : std::to_string(proc.rank));
}

const NodeShare* WorldSpec::share_of(const std::string& node) const {
  for (const NodeShare& share : nodes) {
    if (share.name == node) return &share;
  }
  return nullptr;
}

const NodeShare* WorldSpec::node_of(std::int64_t rank) const {
  for (const NodeShare& share : nodes) {
    if (rank >= share.first && rank < std::int64_t{share.first} + share.count) return &share;
  }
  return nullptr;
}

json::object to_json(const WorldSpec& spec) {
  json::array nodes;
  for (const NodeShare& share : spec.nodes) {
    nodes.push_back(json::array{share.name, share.id, share.first, share.count});
  }
  return {{"nspace", spec.nspace},
          {"epoch", spec.epoch},
          {"nodes", std::move(nodes)},
          {"members", json::value_from(spec.members)}};
}

WorldSpec world_spec_from_json(const json::object& object) {
  WorldSpec spec;
  spec.nspace = get<std::string>(at(object, "nspace"), "nspace");
  spec.epoch = get<std::uint32_t>(at(object, "epoch"), "epoch");
  spec.members = get<std::vector<std::uint64_t>>(at(object, "members"), "members");
  for (const auto& share : get<std::vector<json::array>>(at(object, "nodes"), "nodes")) {
    if (share.size() != 4) throw ProtocolError("a node is not [name, id, first, count]");
    spec.nodes.push_back({get<std::string>(share[0], "a node's name"),
                          get<std::uint32_t>(share[1], "a node's id"),
                          get<std::uint32_t>(share[2], "a node's first rank"),
                          get<std::uint32_t>(share[3], "a node's number of ranks")});
  }
  return spec;
}

json::object to_json(const Program& program) {
  return {{"arguments", json::value_from(program.arguments)},
          {"environment", json::value_from(program.environment)},
          {"directory", program.directory}};
}

Program program_from_json(const json::object& object) {
  Program program;
  program.arguments = get<std::vector<std::string>>(at(object, "arguments"), "arguments");
  program.environment = get<std::vector<std::string>>(at(object, "environment"), "environment");
  program.directory = get<std::string>(at(object, "directory"), "directory");
  if (program.arguments.empty()) throw ProtocolError("a program without a name");
  return program;
}

}  // namespace bellows::elastic
