// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/size_request.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "protocol/elastic_values.h"
#include "scheduler/cluster/node_list.h"

namespace bellows::scheduler {
SizeRequest parse_size_request(const std::string& text) {
  const std::string form = ": must be N, +N or -N nodes, or names of nodes, such as n1,n[3-4]";
  SizeRequest request;
  std::string rest = text;
  if (text.starts_with('+')) request.what = SizeRequest::What::grow;
  if (text.starts_with('-')) request.what = SizeRequest::What::shrink;
  if (request.what != SizeRequest::What::to) rest.erase(0, 1);
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  if (rest.empty()) throw std::invalid_argument("'" + text + "'" + form);
  if (std::ranges::all_of(rest, digit)) {
    try {
      request.number = protocol::parse_number(rest, 1, protocol::kMostNodes);
    } catch (const protocol::ValueError& wrong) {
      throw std::invalid_argument(std::string(wrong.what()) + " nodes");
    }
    return request;
  }
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  try {
    request.names = parse_node_list(rest);
    for (const std::string& name : request.names) {
      if (!std::ranges::any_of(name, letter)) throw BadNodeList("'" + name + "' is no node");
    }
  } catch (const BadNodeList& wrong) {
    throw std::invalid_argument(wrong.what() + form);
  }
  return request;
}

}  // namespace bellows::scheduler
