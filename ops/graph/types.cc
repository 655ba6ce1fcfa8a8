#include "ops/graph/types.h"

#include <algorithm>

namespace leat {

SymbolicShape::SymbolicShape(const Shape& shape) {
  for (int64_t size : shape) push_back(Dim::of(size));
}

SymbolicShape::SymbolicShape(std::initializer_list<Dim> dims) {
  for (Dim dim : dims) push_back(dim);
}

bool SymbolicShape::is_constant() const {
  return std::all_of(dims().begin(), dims().end(), [](Dim d) { return d.is_constant(); });
}

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
