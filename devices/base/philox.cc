#include "devices/base/philox.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "devices/base/philox_rounds.h"

namespace leat {
namespace {

using philox_rounds::high;
using philox_rounds::join;
using philox_rounds::low;
using philox_rounds::rounds;
using philox_rounds::unit_f32;
using philox_rounds::unit_f64;

// Blocks [first, first + count), four floats each. The compiler turns the loop over the lanes into
// vector instructions.
[[gnu::always_inline]] inline void uniform_blocks(const std::array<uint32_t, 4>& key,
                                                  uint64_t first, uint64_t count, float* out) {
  constexpr int kLanes = 16;
  uint32_t c[4][kLanes];
  for (uint64_t done = 0; done < count; done += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t index = first + done + static_cast<uint64_t>(lane);
      uint32_t c0 = low(index), c1 = high(index), c2 = key[2], c3 = key[3];
      rounds(c0, c1, c2, c3, key[0], key[1]);
      c[0][lane] = c0, c[1][lane] = c1, c[2][lane] = c2, c[3][lane] = c3;
    }
    const uint64_t lanes = std::min<uint64_t>(kLanes, count - done);
    for (uint64_t lane = 0; lane < lanes; ++lane) {
      for (uint64_t word = 0; word < 4; ++word) {
        out[(done + lane) * 4 + word] = unit_f32(c[word][lane]);
      }
    }
  }
}

// One copy of the same code for each instruction set; pick_blocks() asks the CPU once.
using Blocks = void (*)(const std::array<uint32_t, 4>&, uint64_t, uint64_t, float*);

[[gnu::target("avx512f")]] void uniform_blocks_avx512(const std::array<uint32_t, 4>& key,
                                                      uint64_t first, uint64_t count, float* out) {
  uniform_blocks(key, first, count, out);
}
[[gnu::target("avx2")]] void uniform_blocks_avx2(const std::array<uint32_t, 4>& key, uint64_t first,
                                                 uint64_t count, float* out) {
  uniform_blocks(key, first, count, out);
}
void uniform_blocks_any(const std::array<uint32_t, 4>& key, uint64_t first, uint64_t count,
                        float* out) {
  uniform_blocks(key, first, count, out);
}

Blocks pick_blocks() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return uniform_blocks_avx512;
  if (__builtin_cpu_supports("avx2")) return uniform_blocks_avx2;
  return uniform_blocks_any;
}

// The finalizer of SplitMix64: every bit of the input changes every bit of the output with equal
// chance.
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  rounds(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
  return counter;
}

RandomStream::RandomStream(uint64_t seed, uint64_t source, uint64_t step)
    : key_(philox({low(step), high(step), low(source), high(source)}, {low(seed), high(seed)})) {}

PhiloxCounter RandomStream::block(uint64_t index) const {
  return philox({low(index), high(index), key_[2], key_[3]}, {key_[0], key_[1]});
}

float RandomStream::uniform_f32(uint64_t element) const {
  return unit_f32(block(element / 4)[element % 4]);
}

double RandomStream::uniform_f64(uint64_t element) const {
  const PhiloxCounter words = block(element / 2);
  const size_t at = element % 2 * 2;
  return unit_f64(words[at], words[at + 1]);
}

double RandomStream::normal_f64(uint64_t element) const {
  const PhiloxCounter words = block(element);
  const double u = unit_f64(words[0], words[1]) + 0x1p-53;
  const double v = unit_f64(words[2], words[3]);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

float RandomStream::normal_f32(uint64_t element) const {
  return static_cast<float>(normal_f64(element));
}

void RandomStream::fill_uniform(uint64_t first, std::span<float> out) const {
  static const Blocks blocks = pick_blocks();
  size_t i = 0;
  // Elements before the first whole block, whole blocks, and the rest.
  while (i < out.size() && (first + i) % 4 != 0) out[i] = uniform_f32(first + i), ++i;
  const size_t count = (out.size() - i) / 4;
  blocks(key_, (first + i) / 4, count, out.data() + i);
  i += count * 4;
  for (; i < out.size(); ++i) out[i] = uniform_f32(first + i);
}

// Both halves have at least one bit. For an odd number of bits they differ by one bit, and each
// round changes the other half, so that the domain has fewer than 2n elements.
Permutation::Permutation(uint64_t n, uint64_t key) : n_(n) {
  const int bits = std::max(2, n > 1 ? static_cast<int>(std::bit_width(n - 1)) : 0);
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const PhiloxCounter words = philox({round, 0, low(n), high(n)}, {low(key), high(key)});
    round_keys_[round] = join(words[0], words[1]);
  }
}

// A Feistel network: each round adds a function of one half to the other, which can be undone, so
// that the whole is a bijection.
uint64_t Permutation::encrypt(uint64_t i) const {
  const uint64_t left_mask = (uint64_t{1} << left_bits_) - 1;
  const uint64_t right_mask = (uint64_t{1} << right_bits_) - 1;
  uint64_t left = i >> right_bits_, right = i & right_mask;
  for (size_t round = 0; round < kRounds; round += 2) {
    left ^= mix(right + round_keys_[round]) & left_mask;
    right ^= mix(left + round_keys_[round + 1]) & right_mask;
  }
  return left << right_bits_ | right;
}

// Encrypting again and again returns to i at the latest, so that the walk ends within [0, n).
uint64_t Permutation::operator()(uint64_t i) const {
  if (i >= n_) return i;
  do i = encrypt(i);
  while (i >= n_);
  return i;
}

}  // namespace leat
