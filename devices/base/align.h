// Rounding sizes and offsets up to an alignment.
#pragma once

#include <cstdint>

namespace leat {

// The smallest multiple of `alignment` that is at least `bytes`. Any alignment works, not only
// powers of two. REQUIRES: alignment > 0, and the result fits 64 bits.
constexpr uint64_t align_up(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace leat
