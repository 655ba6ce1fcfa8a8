// The rounds of Philox4x32-10 and the numbers that its words become: see philox.h. They are inline
// functions, for loops over many blocks and for the kernels of GPUs, and give the same bits in all
// of them.
#pragma once

#include <cstdint>

#include "devices/base/inline.h"

namespace leat::philox_rounds {

// The constants of the paper: two multipliers, and the steps of the key's Weyl sequence.
constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

LEAT_INLINE constexpr uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
LEAT_INLINE constexpr uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
LEAT_INLINE constexpr uint64_t join(uint32_t low, uint32_t high) {
  return uint64_t{high} << 32 | low;
}

// The ten rounds on one block. always_inline, so that it is compiled for the instruction set of its
// caller.
LEAT_INLINE void rounds(uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3, uint32_t k0,
                        uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c0;
    const uint64_t p1 = uint64_t{kMultiplier1} * c2;
    c0 = high(p1) ^ c1 ^ k0;
    c2 = high(p0) ^ c3 ^ k1;
    c1 = low(p1);
    c3 = low(p0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
}

// Words of random bits as numbers in [0,1).
LEAT_INLINE constexpr float unit_f32(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}
LEAT_INLINE constexpr double unit_f64(uint32_t low, uint32_t high) {
  return static_cast<double>(join(low, high) >> 11) * 0x1p-53;
}

}  // namespace leat::philox_rounds
