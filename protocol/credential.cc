// SPDX-License-Identifier: Apache-2.0
#include "protocol/credential.h"

#include <munge.h>

#include <cstdlib>
#include <span>
#include <utility>

namespace bellows::protocol {

namespace {

[[noreturn]] void fail(const char* what, munge_err_t error) {
  std::string text = std::string(what) + ": MUNGE says: " + munge_strerror(error);
  if (error == EMUNGE_SOCKET) text += "; is munged running on this machine?";
  throw CredentialError(text);
}

class Context {
 public:
  Context() : context_(munge_ctx_create()) {
    if (context_ == nullptr) throw CredentialError("no memory for a MUNGE context");
  }
  ~Context() { munge_ctx_destroy(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  munge_ctx_t get() const { return context_; }

 private:
  munge_ctx_t context_;
};

Message seal_in(const Context& context, const Message& message) {
  const std::string frame = encode(message);
  char* credential = nullptr;
  const munge_err_t error =
      munge_encode(&credential, context.get(), frame.data(), static_cast<int>(frame.size()));
  const std::unique_ptr<char, void (*)(void*)> owned(credential, std::free);
  if (error != EMUNGE_SUCCESS) fail("cannot seal a message", error);
  return Message("sealed", credential);
}

class MungeSealer : public Sealer {
 public:
  Message seal(const Message& message) override { return seal_in(Context(), message); }

  Message seal_for(const Message& message, std::uint32_t reader) override {
    const Context context;
    munge_ctx_set(context.get(), MUNGE_OPT_UID_RESTRICTION, static_cast<uid_t>(reader));
    return seal_in(context, message);
  }

  Opened open(const Message& sealed) override {
    if (sealed.type() != "sealed") {
      throw CredentialError("a message of type \"" + std::string(sealed.type()) +
                            "\" carries no credential");
    }
    void* payload = nullptr;
    int length = 0;
    uid_t user = 0;
    gid_t group = 0;
    const munge_err_t error =
        munge_decode(sealed.body.c_str(), nullptr, &payload, &length, &user, &group);
    const std::unique_ptr<void, void (*)(void*)> owned(payload, std::free);
    if (error != EMUNGE_SUCCESS) fail("a message's credential is not valid", error);
    Decoder decoder;
    decoder.feed({static_cast<const char*>(payload), static_cast<std::size_t>(length)});
    std::optional<Message> message = decoder.next();
    if (!message) throw ProtocolError("a sealed message is cut off");
    return {std::move(*message), static_cast<std::uint32_t>(user)};
  }
};

}  // namespace

std::unique_ptr<Sealer> munge_sealer() { return std::make_unique<MungeSealer>(); }

}  // namespace bellows::protocol
