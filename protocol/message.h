// SPDX-License-Identifier: Apache-2.0
// The message that Bellows' processes exchange, and its frame on the wire.
//
// A frame is two 32-bit lengths in network byte order, then a JSON object (the head) and a string
// of bytes (the body) of those lengths. The head's member "type" names the message. Bytes that are
// not text (modex data, output of ranks) travel in the body, never in the head.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bellows::protocol {

/// Version of the message set. Processes that speak different versions refuse each other.
inline constexpr int kVersion = 1;

/// A longer head or body is a fault of the sender (or not Bellows at all): the connection ends.
/// The body's limit leaves room for the modex data of some ten thousand ranks (~1 kB each).
inline constexpr std::size_t kMaxHead = std::size_t{16} << 20;
inline constexpr std::size_t kMaxBody = std::size_t{256} << 20;

/// Bytes that are no message, or a message that lacks a member or has it of another type.
class ProtocolError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Message {
  boost::json::object head;
  std::string body;

  Message() = default;
  explicit Message(std::string_view type, std::string body_bytes = {});

  /// The message's type, "" if it has none.
  std::string_view type() const;
  /// Members of the head; throw ProtocolError naming the member when it is absent or no such type.
  std::string text(std::string_view name) const;
  std::int64_t number(std::string_view name) const;
  bool flag(std::string_view name) const;
  const boost::json::object& object(std::string_view name) const;
  const boost::json::array& array(std::string_view name) const;
};

/// The frame of `message`. Throws ProtocolError when it exceeds the limits.
std::string encode(const Message& message);

/// Takes bytes as they arrive and gives messages as they become complete.
class Decoder {
 public:
  void feed(std::span<const char> bytes) { buffer_.append(bytes.data(), bytes.size()); }
  /// Refuses frames of more bytes than this from now on.
  void limit(std::size_t bytes) { limit_ = bytes; }
  /// The next complete message, or nothing yet. Throws ProtocolError on bytes that are no frame;
  /// the stream is of no use from then on.
  std::optional<Message> next();

 private:
  std::string buffer_;
  std::size_t start_ = 0;  // of the first frame not given out
  std::size_t limit_ = kMaxHead + kMaxBody;
};

/// Several strings of bytes in one body, and back. `unpack` throws ProtocolError on a bad length.
std::string pack(std::span<const std::string> parts);
std::vector<std::string> unpack(std::string_view bytes);

}  // namespace bellows::protocol
