// A token as people see it: without its key.
#pragma once

#include <cstdint>
#include <string>

#include "transport/rpc/grant.h"

namespace leat {

struct TokenView {
  Grant grant;
  int64_t created_ms = 0;  // Unix time
  int64_t revoked_ms = 0;  // 0: it was not
  std::string by;          // who made it, and from where

  friend bool operator==(const TokenView&, const TokenView&) = default;
};

}  // namespace leat
