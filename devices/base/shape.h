// A concrete shape: up to kMaxRank sizes, held inline. Symbolic shapes belong to the graph
// (ops/graph).
// Threads: a shape is a value.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <span>
#include <string>

namespace leat {

// The highest rank of any tensor.
inline constexpr int kMaxRank = 8;

// Row-major sizes, each >= 0. A scalar has rank 0 and one element. A size of 0 makes a tensor
// without elements.
class Shape {
 public:
  Shape() = default;
  // REQUIRES: at most kMaxRank sizes, each >= 0. Sizes that come from a file or a peer go through
  // checked().
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);

  // The shape, or nothing if the rank is too large, a size is negative, or the product of the sizes
  // other than 0 exceeds 2^62.
  static std::optional<Shape> checked(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  // These two trust their caller: 0 <= i < rank(), and rank() < kMaxRank.
  void set(int i, int64_t size) { dims_[static_cast<size_t>(i)] = size; }
  void push_back(int64_t size) { dims_[static_cast<size_t>(rank_++)] = size; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  // The product of all sizes; 1 for a scalar.
  int64_t elements() const;
  // The product of the sizes [from, to).
  int64_t elements(int from, int to) const;

  bool operator==(const Shape& other) const;
  // "[2,3]"; "[]" for a scalar.
  std::string to_string() const;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

// The shape that NumPy's rules broadcast both to, or nothing if they do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

// a * b and a + b, or nothing if int64 overflows.
std::optional<int64_t> checked_mul(int64_t a, int64_t b);
std::optional<int64_t> checked_add(int64_t a, int64_t b);

}  // namespace leat
