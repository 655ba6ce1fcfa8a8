// Random numbers without state. A number is a pure function of who asks (seed, node, step) and of
// the element's index, so any element can be made alone, on any worker, in any order, and a restart
// goes on with the same numbers.
//
// The generator is Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel
// Random Numbers: As Easy as 1, 2, 3", SC 2011.
//
// Threads: everything here is a pure function or a value.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace leat {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// The bijection of the paper: 128 random bits of each (counter, key).
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

// The numbers of one random node in one step. An element is named by its index in the global
// tensor.
//
// key = philox(counter = {step, source}, key = seed), 128 bits: two words are the key of the
// blocks, two are the high words of their counters. block(i) = philox({i, key[2], key[3]}, {key[0],
// key[1]}). All 64-bit numbers go in as (low word, high word).
//
// uniform_*: in [0,1). f32 takes word i%4 of block i/4, its upper 24 bits; f64 takes the words
// 2(i%2) (low) and 2(i%2)+1 (high) of block i/2, their upper 53 bits. Exact on every machine.
//
// normal_*: Box-Muller, the cosine branch only. Element i has block i for itself:
//   u = (upper 53 bits of words 0, 1, plus 1) / 2^53, in (0,1];  v = upper 53 bits of words 2, 3 /
//   2^53 normal = sqrt(-2 log u) cos(2 pi v), in double; f32 is that, rounded. |normal| < 8.58.
// log and cos are those of the C library, which picks code by CPU: equal bits are promised on
// machines of one CPU model and one C library, no further.
//
// The uniform and the normal numbers of one stream are not independent of each other: a node uses
// one kind.
class RandomStream {
 public:
  // `source` names who draws: the node's index in the source graph, with the caller's own tag in
  // the upper half if it draws for several purposes.
  RandomStream(uint64_t seed, uint64_t source, uint64_t step);

  PhiloxCounter block(uint64_t index) const;
  float uniform_f32(uint64_t element) const;
  double uniform_f64(uint64_t element) const;
  float normal_f32(uint64_t element) const;
  double normal_f64(uint64_t element) const;

  // Elements [first, first + out.size()), the same bits as one by one, several times faster.
  void fill_uniform(uint64_t first, std::span<float> out) const;

 private:
  std::array<uint32_t, 4> key_;
};

// A shuffle of [0, n) without memory: position i holds element permutation(i). A Feistel network
// over the smallest 2^b >= n, walked along its cycle until it lands inside (J. Black, P. Rogaway,
// "Ciphers with Arbitrary Finite Domains", CT-RSA 2002). Less than two walks an index on average.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t key);
  uint64_t size() const { return n_; }
  // A bijection of [0, size()); an i outside maps to itself.
  uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int kRounds = 8;
  uint64_t encrypt(uint64_t i) const;

  uint64_t n_;
  int left_bits_;
  int right_bits_;
  std::array<uint64_t, kRounds> round_keys_;
};

}  // namespace leat
