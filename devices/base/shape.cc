#include "devices/base/shape.h"

#include <algorithm>
#include <cassert>

#include "devices/base/text.h"

namespace leat {

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  assert(dims.size() <= kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

// Sizes of 0 are left out of the product: the shape has no elements, and yet the other sizes must
// be such that no product of them overflows.
std::optional<Shape> Shape::checked(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) return std::nullopt;
  int64_t product = 1;
  bool zero = false;
  for (int64_t size : dims) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      zero = true;
      continue;
    }
    // 2^62 leaves room for the bytes of an element.
    const auto next = checked_mul(product, size);
    if (!next || *next > (int64_t{1} << 62)) return std::nullopt;
    product = *next;
  }
  (void)zero;
  return Shape(dims);
}

int64_t Shape::elements() const { return elements(0, rank_); }

int64_t Shape::elements(int from, int to) const {
  int64_t product = 1;
  for (int i = from; i < to; ++i) product *= dims_[static_cast<size_t>(i)];
  return product;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

std::string Shape::to_string() const { return "[" + join(dims(), ",") + "]"; }

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.to_string(); }

// The sizes are compared from the last one on. A size of 1 fits any other one.
std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape out = longer;
  const int offset = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const int64_t x = longer[offset + i], y = shorter[i];
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out.set(offset + i, x == 1 ? y : x);
  }
  return out;
}

// The compiler's built-ins are exact for every pair.
std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

}  // namespace leat
