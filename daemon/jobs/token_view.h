// A token as people see it: without its key.
#pragma once

#include <cstdint>
#include <string>

#include "transport/rpc/grant.h"

namespace leat {

// The secret from which the key of a token was made, as the master knows it now.
enum class TokenSecret : uint8_t {
  unknown = 0,  // of a token that an older leatd has made
  current,
  previous,  // which the master still accepts
  old,       // which it accepts no more: the token lets nobody in
};

struct TokenView {
  Grant grant;
  int64_t created_ms = 0;  // Unix time
  int64_t revoked_ms = 0;  // 0: it was not
  std::string by;          // who made it, and from where
  std::string mark = {};   // of the secret; the master alone has it. Empty: not known
  TokenSecret secret = TokenSecret::unknown;

  friend bool operator==(const TokenView&, const TokenView&) = default;
};

}  // namespace leat
