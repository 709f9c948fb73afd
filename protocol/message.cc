// SPDX-License-Identifier: Apache-2.0
#include "protocol/message.h"

#include <arpa/inet.h>

#include <boost/json.hpp>
#include <cstring>

namespace bellows::protocol {
namespace json = boost::json;
namespace {

constexpr std::size_t kLengths = 2 * sizeof(std::uint32_t);

void append_length(std::string& to, std::size_t length) {
  const std::uint32_t n = htonl(static_cast<std::uint32_t>(length));
  to.append(reinterpret_cast<const char*>(&n), sizeof n);
}

std::size_t read_length(const char* from) {
  std::uint32_t n = 0;
  std::memcpy(&n, from, sizeof n);
  return ntohl(n);
}

const json::value& member(const Message& message, std::string_view name) {
  const json::value* v = message.head.if_contains(name);
  if (v == nullptr) {
    throw ProtocolError("message \"" + std::string(message.type()) + "\" has no member \"" +
                        std::string(name) + "\"");
  }
  return *v;
}

[[noreturn]] void wrong_type(const Message& message, std::string_view name, const char* wanted) {
  throw ProtocolError("message \"" + std::string(message.type()) + "\": \"" + std::string(name) +
                      "\" is not " + wanted);
}

}  // namespace

Message::Message(std::string_view type, std::string body_bytes) : body(std::move(body_bytes)) {
  head["type"] = type;
}

std::string_view Message::type() const {
  const json::value* v = head.if_contains("type");
  return v != nullptr && v->is_string() ? std::string_view(v->get_string()) : std::string_view();
}

std::string Message::text(std::string_view name) const {
  const json::value& v = member(*this, name);
  if (!v.is_string()) wrong_type(*this, name, "a string");
  return std::string(std::string_view(v.get_string()));
}

std::int64_t Message::number(std::string_view name) const {
  const json::value& v = member(*this, name);
  std::error_code failed;
  const auto n = v.to_number<std::int64_t>(failed);
  if (failed) wrong_type(*this, name, "a whole number");
  return n;
}

bool Message::flag(std::string_view name) const {
  const json::value& v = member(*this, name);
  if (!v.is_bool()) wrong_type(*this, name, "true or false");
  return v.get_bool();
}

const json::object& Message::object(std::string_view name) const {
  const json::value& v = member(*this, name);
  if (!v.is_object()) wrong_type(*this, name, "an object");
  return v.get_object();
}

const json::array& Message::array(std::string_view name) const {
  const json::value& v = member(*this, name);
  if (!v.is_array()) wrong_type(*this, name, "an array");
  return v.get_array();
}

std::string encode(const Message& message) {
  const std::string head = json::serialize(message.head);
  if (head.size() > kMaxHead || message.body.size() > kMaxBody) {
    throw ProtocolError("message \"" + std::string(message.type()) +
                        "\" is too long: " + std::to_string(head.size()) + " + " +
                        std::to_string(message.body.size()) + " bytes");
  }
  std::string frame;
  frame.reserve(kLengths + head.size() + message.body.size());
  append_length(frame, head.size());
  append_length(frame, message.body.size());
  frame += head;
  frame += message.body;
  return frame;
}

std::optional<Message> Decoder::next() {
  const std::size_t have = buffer_.size() - start_;
  if (have < kLengths) return std::nullopt;
  const char* at = buffer_.data() + start_;
  const std::size_t head = read_length(at);
  const std::size_t body = read_length(at + sizeof(std::uint32_t));
  if (head > kMaxHead || body > kMaxBody || head + body > limit_) {
    throw ProtocolError("the peer does not speak this protocol (a frame of " +
                        std::to_string(head) + " + " + std::to_string(body) + " bytes)");
  }
  if (have < kLengths + head + body) return std::nullopt;

  Message message;
  std::error_code failed;
  json::value parsed = json::parse(json::string_view(at + kLengths, head), failed);
  if (failed || !parsed.is_object()) {
    throw ProtocolError("the peer does not speak this protocol (the head is no JSON object)");
  }
  message.head = std::move(parsed.get_object());
  message.body.assign(at + kLengths + head, body);
  start_ += kLengths + head + body;
  // Moving the rest to the front costs its length: only when most of the buffer is used up.
  if (start_ == buffer_.size() || start_ > buffer_.size() / 2) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
  return message;
}

std::string pack(std::span<const std::string> parts) {
  std::string bytes;
  for (const std::string& part : parts) {
    append_length(bytes, part.size());
    bytes += part;
  }
  return bytes;
}

std::vector<std::string> unpack(std::string_view bytes) {
  std::vector<std::string> parts;
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(std::uint32_t)) throw ProtocolError("packed bytes end in a length");
    const std::size_t length = read_length(bytes.data());
    bytes.remove_prefix(sizeof(std::uint32_t));
    if (bytes.size() < length) throw ProtocolError("packed bytes end within a part");
    parts.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return parts;
}

}  // namespace bellows::protocol
