// The offer of a wire on its way over the inner link.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/device_wire.h"
#include "transport/direct/wire_memory.h"

namespace leat::direct {

//  0        8       16        16 + 240  264     272
//  +--------+--------+---------+---------+-------+---------------------+
//  | memory | length | offer   |         | count | closed, 8 bytes each |
//  +--------+--------+---------+---------+-------+---------------------+
// Numbers are little-endian.
inline constexpr size_t kOfferBytes = 16 + kMostOfferBytes + 8 + 8 * WireMemory::kMostTold;

// Threads: a value.
struct WireOffer {
  uint64_t memory = 0;           // the number of the memory at the receiving end
  std::string offer;             // "" if no values go to the process that sends this
  std::vector<uint64_t> closed;  // memories of the other process that were closed here

  // REQUIRES: `offer` has at most kMostOfferBytes bytes.
  std::array<std::byte, kOfferBytes> written() const;
  // invalid_argument if a length cannot be right.
  static Result<WireOffer> read(const void* at);
};

}  // namespace leat::direct
