// Random numbers without state. A number is a pure function of its origin (seed, node, step) and of
// the element's index. Any machine can therefore compute any element alone, in any order, and a
// restarted job goes on with the same numbers.
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

// The bijection of the paper. It gives 128 random bits for each pair of counter and key.
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

// The numbers of one random node in one step. The index of an element is its index in the global
// tensor, whatever part of the tensor a machine holds.
//
// Keys: key = philox(counter = {step, source}, key = seed) has 128 bits. Two words are the key of
// the blocks, the other two are the high words of their counters: block(i) = philox({i, key[2],
// key[3]}, {key[0], key[1]}). All 64-bit numbers go in as (low word, high word).
//
// uniform_*: numbers in [0,1). f32 takes word i%4 of block i/4 and uses its upper 24 bits. f64
// takes words 2(i%2) (low) and 2(i%2)+1 (high) of block i/2 and uses their upper 53 bits. The
// results are the same on every machine.
//
// normal_*: Box-Muller, the cosine branch only. Element i has block i to itself:
//   u = (upper 53 bits of words 0, 1, plus 1) / 2^53, in (0,1]
//   v = (upper 53 bits of words 2, 3) / 2^53, in [0,1)
//   normal = sqrt(-2 log u) cos(2 pi v), in double; f32 is that, rounded. |normal| < 8.58.
// log and cos are those of the C library, which picks its code by CPU. Equal bits are therefore
// promised between machines of one CPU model and one C library only.
//
// The uniform and the normal numbers of one stream are not independent of each other, so a node
// uses one kind.
class RandomStream {
 public:
  // `source` is the node that draws: its index in the source graph, with a tag of the caller in the
  // upper half if the node draws for several purposes.
  RandomStream(uint64_t seed, uint64_t source, uint64_t step);

  PhiloxCounter block(uint64_t index) const;
  float uniform_f32(uint64_t element) const;
  double uniform_f64(uint64_t element) const;
  float normal_f32(uint64_t element) const;
  double normal_f64(uint64_t element) const;

  // Writes the elements [first, first + out.size()). The bits are those of uniform_f32(), at
  // several times its speed.
  void fill_uniform(uint64_t first, std::span<float> out) const;

 private:
  std::array<uint32_t, 4> key_;
};

// A shuffle of [0, n) that needs no memory: position i holds element permutation(i). It is a
// Feistel network over the smallest 2^b >= n (with b >= 2), walked along its cycle until it lands
// inside: J. Black, P. Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002. An index
// takes fewer than two walks on average.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t key);
  uint64_t size() const { return n_; }
  // A bijection of [0, size()). An i outside maps to itself.
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
