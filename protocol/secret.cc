// SPDX-License-Identifier: Apache-2.0
#include "protocol/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <span>
#include <stdexcept>

namespace bellows::protocol {
namespace {

std::string hex(std::span<const unsigned char> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

std::string random_hex() {
  std::array<unsigned char, 32> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    throw std::runtime_error("no random bytes from the system (RAND_bytes failed)");
  }
  return hex(bytes);
}

std::string proof(std::string_view secret, std::string_view role, std::string_view challenge,
                  std::string_view answer) {
  // Nonces are hexadecimal, so a separator cannot occur inside the parts.
  std::string text(role);
  text.append(1, '|').append(challenge).append(1, '|').append(answer);
  std::array<unsigned char, EVP_MAX_MD_SIZE> code;
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), code.data(),
           &length) == nullptr) {
    throw std::runtime_error("HMAC-SHA256 failed");
  }
  return hex(std::span(code).first(length));
}

bool same_proof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace bellows::protocol
