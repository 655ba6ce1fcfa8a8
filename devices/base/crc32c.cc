#include "devices/base/crc32c.h"

#include <immintrin.h>

#include <array>
#include <cstring>

namespace leat {
namespace {

// table[k][b] is the checksum of byte b followed by k zero bytes. With it, eight bytes are looked
// up at a time (M. Kounavis, F. Berry, "Novel Table Lookup-Based Algorithms for High-Performance
// CRC", 2008).
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

// The CRC instruction takes three cycles, and one can start in each. Long buffers therefore go as
// three streams of kBlock bytes. The three checksums are joined by moving each over the bytes that
// follow it (M. Adler, crc32c.c). Moving is linear, so it is four look-ups in a table made for that
// distance.
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

// The checksum of the same bytes followed by kBlock zero bytes.
uint32_t move_over_block(uint64_t crc) {
  static const Shift shift = make_shift(kBlock);
  return shift[0][crc & 255] ^ shift[1][crc >> 8 & 255] ^ shift[2][crc >> 16 & 255] ^
         shift[3][crc >> 24 & 255];
}

// Three streams while there are three blocks, then eight bytes at a time, then one.
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

// Functions with this attribute run only on CPUs with these instructions; crc32c() asks the CPU.
#define LEAT_FOLDING __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))

// x to the n-th modulo the polynomial, bits reflected: the highest bit is the coefficient of 1.
constexpr uint64_t power_of_x(size_t n) {
  uint32_t power = uint32_t{1} << 31;
  for (size_t i = 0; i < n; ++i) power = (power >> 1) ^ (power & 1 ? 0x82F63B78u : 0);
  return power;
}

// The factors that move a remainder of 16 bytes over the bytes that follow: one for its first half
// and one for its second.
struct Fold {
  uint64_t first, second;
};
constexpr Fold fold_over(size_t bytes) {
  return {power_of_x(8 * bytes + 63) << 32, power_of_x(8 * bytes - 1) << 32};
}
LEAT_FOLDING inline __m128i factors(const Fold& fold) {
  return _mm_set_epi64x(static_cast<int64_t>(fold.second), static_cast<int64_t>(fold.first));
}
LEAT_FOLDING inline __m512i four_factors(const Fold& fold) {
  const auto first = static_cast<int64_t>(fold.first), second = static_cast<int64_t>(fold.second);
  return _mm512_set4_epi64(second, first, second, first);
}

// Moves four remainders and adds them to the bytes there.
LEAT_FOLDING inline __m512i fold(__m512i remainders, __m512i by, __m512i onto) {
  const __m512i first = _mm512_clmulepi64_epi128(remainders, by, 0x00);
  const __m512i second = _mm512_clmulepi64_epi128(remainders, by, 0x11);
  return _mm512_ternarylogic_epi64(first, second, onto, 0x96);
}
LEAT_FOLDING inline __m128i fold(__m128i remainder, const Fold& over, __m128i onto) {
  const __m128i by = factors(over);
  const __m128i first = _mm_clmulepi64_si128(remainder, by, 0x00);
  return _mm_xor_si128(onto, _mm_xor_si128(first, _mm_clmulepi64_si128(remainder, by, 0x11)));
}
LEAT_FOLDING inline __m512i load(const std::byte* at) { return _mm512_loadu_si512(at); }

// Long buffers on CPUs that multiply polynomials. 256 bytes are carried along as sixteen remainders
// (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction",
// 2009), three times as fast as the CRC instruction. Bytes that come from memory are prefetched, so
// that a socket that reads them next finds them in the cache.
LEAT_FOLDING uint32_t crc32c_avx512(std::span<const std::byte> bytes, uint32_t before) {
  constexpr size_t kStride = 256, kAhead = 2048;
  if (bytes.size() < 2 * kStride) return crc32c_sse42(bytes, before);
  const std::byte* at = bytes.data();
  size_t left = bytes.size() - kStride;
  const auto crc = static_cast<int>(~before);
  __m512i a = _mm512_xor_si512(load(at), _mm512_zextsi128_si512(_mm_cvtsi32_si128(crc)));
  __m512i b = load(at + 64), c = load(at + 128), d = load(at + 192);
  constexpr Fold kFar = fold_over(kStride), kNear = fold_over(64);
  const __m512i far = four_factors(kFar);
  for (at += kStride; left >= kStride; at += kStride, left -= kStride) {
    for (size_t line = 0; line < kStride; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(at + kAhead + line), _MM_HINT_T0);
    a = fold(a, far, load(at));
    b = fold(b, far, load(at + 64));
    c = fold(c, far, load(at + 128));
    d = fold(d, far, load(at + 192));
  }
  const __m512i near = four_factors(kNear);
  a = fold(fold(fold(a, near, b), near, c), near, d);
  constexpr Fold kBy48 = fold_over(48), kBy32 = fold_over(32), kBy16 = fold_over(16);
  alignas(64) __m128i parts[4];
  _mm512_store_si512(parts, a);
  __m128i one = fold(parts[0], kBy48, parts[3]);
  one = fold(parts[1], kBy32, one);
  one = fold(parts[2], kBy16, one);
  uint64_t sum = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(one)));
  sum = _mm_crc32_u64(sum, static_cast<uint64_t>(_mm_extract_epi64(one, 1)));
  return crc32c_sse42({at, left}, ~static_cast<uint32_t>(sum));
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
  static const auto fastest = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2")) return crc32c_portable;
    const bool folds = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq") &&
                       __builtin_cpu_supports("pclmul");
    return folds ? crc32c_avx512 : crc32c_sse42;
  }();
  return fastest(bytes, before);
}

}  // namespace leat
