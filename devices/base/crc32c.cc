#include "devices/base/crc32c.h"

#include <nmmintrin.h>

#include <array>
#include <cstring>

namespace leat {
namespace {

// table[k][b]: the checksum of byte b followed by k zero bytes, for eight bytes at a time
// (M. Kounavis, F. Berry, "Novel Table Lookup-Based Algorithms for High-Performance CRC", 2008).
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t crc = tables[k - 1][b];
      tables[k][b] = (crc >> 8) ^ tables[0][crc & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

uint64_t load64(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The CRC instruction takes three cycles and one may start in each: long buffers go as three
// streams of kBlock bytes, joined by moving a checksum over the bytes that follow it (M. Adler,
// crc32c.c). Moving is linear, so it is four look-ups in a table made for that distance.
constexpr size_t kBlock = 2048;
using Shift = std::array<std::array<uint32_t, 256>, 4>;

constexpr Shift make_shift(size_t zero_bytes) {
  Shift shift{};
  for (uint32_t bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < zero_bytes; ++i) crc = (crc >> 8) ^ kTables[0][crc & 255];
    for (uint32_t b = 0; b < 256; ++b) {
      if (b >> (bit % 8) & 1) shift[bit / 8][b] ^= crc;
    }
  }
  return shift;
}

uint32_t move_over_block(uint64_t crc) {
  static const Shift shift = make_shift(kBlock);
  return shift[0][crc & 255] ^ shift[1][crc >> 8 & 255] ^ shift[2][crc >> 16 & 255] ^
         shift[3][crc >> 24 & 255];
}

[[gnu::target("sse4.2")]] uint32_t crc32c_sse42(std::span<const std::byte> bytes, uint32_t before) {
  uint64_t crc = static_cast<uint32_t>(~before);
  const std::byte* at = bytes.data();
  const std::byte* end = at + bytes.size();
  for (; static_cast<size_t>(end - at) >= 3 * kBlock; at += 3 * kBlock) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kBlock; i += 8) {
      crc = _mm_crc32_u64(crc, load64(at + i));
      second = _mm_crc32_u64(second, load64(at + kBlock + i));
      third = _mm_crc32_u64(third, load64(at + 2 * kBlock + i));
    }
    crc = move_over_block(move_over_block(crc) ^ second) ^ third;
  }
  for (; end - at >= 8; at += 8) crc = _mm_crc32_u64(crc, load64(at));
  uint32_t tail = static_cast<uint32_t>(crc);
  for (; at != end; ++at) tail = _mm_crc32_u8(tail, static_cast<uint8_t>(*at));
  return ~tail;
}

}  // namespace

uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  const std::byte* at = bytes.data();
  const std::byte* end = at + bytes.size();
  for (; end - at >= 8; at += 8) {
    const uint64_t word = load64(at) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 255];
  }
  for (; at != end; ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint8_t>(*at)) & 255];
  return ~crc;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  static const bool fast = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
  }();
  return fast ? crc32c_sse42(bytes, before) : crc32c_portable(bytes, before);
}

}  // namespace leat
