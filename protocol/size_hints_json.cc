// SPDX-License-Identifier: Apache-2.0
#include "protocol/size_hints_json.h"

#include <cmath>
#include <string>

#include "protocol/message.h"

namespace bellows::protocol {
namespace json = boost::json;

namespace {

constexpr int kMost = 1'000'000;  // nodes and ranks

[[noreturn]] void wrong(const char* member) {
  throw ProtocolError(std::string("\"hints\": \"") + member + "\" is absent or wrong");
}

double real(const json::object& object, const char* member, double least) {
  const json::value* value = object.if_contains(member);
  if (value == nullptr || !value->is_number()) wrong(member);
  const auto number = value->to_number<double>();
  if (!std::isfinite(number) || number < least || number > 1e15) wrong(member);
  return number;
}

int count(const json::object& object, const char* member) {
  const json::value* value = object.if_contains(member);
  const std::int64_t* number = value != nullptr ? value->if_int64() : nullptr;
  if (number == nullptr || *number < 1 || *number > kMost) wrong(member);
  return static_cast<int>(*number);
}

std::optional<double> change(const json::object& object, const char* member) {
  if (!object.contains(member)) return std::nullopt;
  return real(object, member, -1e15);
}

}  // namespace

json::object to_json(const SizeHints& hints) {
  json::object object{{"best_nodes", hints.best_nodes},
                      {"best_ranks", hints.best_ranks},
                      {"economic_nodes", hints.economic_nodes},
                      {"economic_ranks", hints.economic_ranks},
                      {"goodput", hints.goodput}};
  if (hints.gain_of_more) object["gain_of_more"] = *hints.gain_of_more;
  if (hints.loss_of_less) object["loss_of_less"] = *hints.loss_of_less;
  return object;
}

SizeHints size_hints_from_json(const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr) throw ProtocolError("\"hints\" is no object");
  SizeHints hints;
  hints.best_nodes = count(*object, "best_nodes");
  hints.best_ranks = count(*object, "best_ranks");
  hints.economic_nodes = count(*object, "economic_nodes");
  hints.economic_ranks = count(*object, "economic_ranks");
  hints.goodput = real(*object, "goodput", 0);
  hints.gain_of_more = change(*object, "gain_of_more");
  hints.loss_of_less = change(*object, "loss_of_less");
  return hints;
}

std::optional<SizeHints> size_hints_in(const json::object& head) {
  const json::value* value = head.if_contains("hints");
  return value != nullptr ? std::optional(size_hints_from_json(*value)) : std::nullopt;
}

}  // namespace bellows::protocol
