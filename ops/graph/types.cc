#include "ops/graph/types.h"

#include <algorithm>

namespace leat {

SymbolicShape::SymbolicShape(const Shape& shape) {
  for (int64_t size : shape) push_back(Dim::of(size));
}

// REQUIRES: at most kMaxRank sizes, as push_back() does.
SymbolicShape::SymbolicShape(std::initializer_list<Dim> dims) {
  for (Dim dim : dims) push_back(dim);
}

bool SymbolicShape::is_constant() const {
  return std::all_of(dims().begin(), dims().end(), [](Dim d) { return d.is_constant(); });
}

// The shape is nothing if one size is a symbol, even if the symbol has a bound.
std::optional<Shape> SymbolicShape::concrete() const {
  if (!is_constant()) return std::nullopt;
  Shape shape;
  for (Dim dim : dims()) shape.push_back(dim.factor);
  return shape;
}

bool SymbolicShape::operator==(const SymbolicShape& other) const {
  return rank_ == other.rank_ && std::equal(dims().begin(), dims().end(), other.dims().begin());
}

}  // namespace leat
