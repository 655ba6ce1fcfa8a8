// Random numbers for drawn tests: the same on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace leat {

using Sizes = std::vector<int64_t>;

// Draws numbers that are equal everywhere; the standard's distributions are not.
class Draw {
 public:
  explicit Draw(uint64_t seed) : bits_(seed * 0x9e3779b97f4a7c15 + 1) {}
  int64_t from(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits_() % static_cast<uint64_t>(high - low + 1));
  }
  bool once_in(int64_t n) { return from(1, n) == 1; }
  template <typename T>
  T any_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(from(0, static_cast<int64_t>(list.size()) - 1))];
  }
  int64_t any_of(const Sizes& sizes) { return any_of<int64_t>(sizes); }
  // A number in [low, high).
  double real(double low, double high) {
    return low + (high - low) * static_cast<double>(bits_() >> 11) * 0x1.0p-53;
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace leat
