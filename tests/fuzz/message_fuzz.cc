// SPDX-License-Identifier: Apache-2.0
// The bytes that arrive at a socket: frames, the JSON in them, and packed bodies. The first byte
// says in which pieces they arrive.
#include <algorithm>
#include <boost/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "protocol/message.h"
#include "tests/fuzz/target.h"

namespace bellows::protocol {
namespace {

using fuzz::require;

constexpr std::size_t kLimit = std::size_t{1} << 16;

template <typename Access>
void tried(Access access) {
  fuzz::is_refused<ProtocolError>(access);
}

void look_at(const Message& message) {
  for (const char* name : {"type", "version", "nodes", "wait", "x"}) {
    tried([&] { (void)message.text(name); });
    tried([&] { (void)message.number(name); });
    tried([&] { (void)message.flag(name); });
    tried([&] { (void)message.object(name); });
    tried([&] { (void)message.array(name); });
  }
  tried([&] {
    const std::vector<std::string> parts = unpack(message.body);
    require(pack(parts) == message.body, "packed parts stay what they are");
  });
}

void send_on(const Message& message) {
  Decoder decoder;
  const std::string frame = encode(message);
  decoder.feed(frame);
  const auto again = decoder.next();
  require(again.has_value(), "a message that was read can be written and read again");
  require(again->type() == message.type() && again->body == message.body, "and is the same");
  require(!decoder.next().has_value(), "once");
}

}  // namespace
}  // namespace bellows::protocol

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bellows::protocol;
  if (size == 0) return 0;
  const std::size_t piece = std::size_t{1} + data[0];
  const std::string_view bytes = bellows::fuzz::text_of(data + 1, size - 1);
  Decoder decoder;
  decoder.limit(kLimit);
  // Bytes that are no frame end the connection.
  bellows::fuzz::is_refused<ProtocolError>([&] {
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      decoder.feed(bytes.substr(at, piece));
      while (const auto message = decoder.next()) {
        look_at(*message);
        send_on(*message);
      }
    }
  });
  return 0;
}
