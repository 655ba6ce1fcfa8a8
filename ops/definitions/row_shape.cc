#include "ops/definitions/row_shape.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "devices/base/text.h"

namespace leat {
namespace {

bool takes(Dim dim, int64_t size) { return !dim.is_constant() || dim.factor == size; }

std::span<const Dim> row_dims(const SymbolicShape& value, int first) {
  return value.dims().subspan(static_cast<size_t>(std::min(first, value.rank())));
}

std::optional<Shape> size_by_size(const Shape& row, std::span<const Dim> dims) {
  if (static_cast<size_t>(row.rank()) != dims.size()) return std::nullopt;
  if (!std::equal(dims.begin(), dims.end(), row.begin(), takes)) return std::nullopt;
  return row;
}

// The sizes of a row without those that are 1.
std::optional<Shape> squeezed(const Shape& row, std::span<const Dim> dims) {
  Shape out;
  int next = 0;
  const auto skip = [&] {
    while (next < row.rank() && row[next] == 1) ++next;
  };
  for (const Dim dim : dims) {
    skip();
    if (dim == Dim::of(1)) {
      out.push_back(1);
    } else if (next < row.rank() && takes(dim, row[next])) {
      out.push_back(row[next++]);
    } else {
      return std::nullopt;
    }
  }
  skip();
  return next == row.rank() ? std::optional(out) : std::nullopt;
}

std::optional<Shape> flattened(const Shape& row, std::span<const Dim> dims) {
  if (dims.size() != 1 || dims[0] != Dim::of(row.elements())) return std::nullopt;
  return Shape{row.elements()};
}

std::optional<Shape> fitted(const Shape& row, std::span<const Dim> dims) {
  if (const auto shape = size_by_size(row, dims)) return shape;
  if (const auto shape = squeezed(row, dims)) return shape;
  return flattened(row, dims);
}

// The permutation of an array of such rows that gives the model's order; axis 0 is that of the
// rows. Empty if no permutation does.
std::vector<int> transposition(const Shape& row, std::span<const Dim> dims) {
  std::vector<int> axes{0};
  std::vector<bool> used(static_cast<size_t>(row.rank()), false);
  if (static_cast<size_t>(row.rank()) != dims.size()) return {};
  for (const Dim dim : dims) {
    int axis = 0;
    while (axis < row.rank() && (used[static_cast<size_t>(axis)] || dim != Dim::of(row[axis])))
      ++axis;
    if (axis == row.rank()) return {};
    used[static_cast<size_t>(axis)] = true;
    axes.push_back(axis + 1);
  }
  return axes;
}

}  // namespace

bool fits_row(const Shape& row, const SymbolicShape& value, int first) {
  return fitted(row, row_dims(value, first)).has_value();
}

Shape row_shape(const Shape& row, const SymbolicShape& value, int first) {
  return fitted(row, row_dims(value, first)).value_or(row);
}

std::string layout_hint(const Shape& row, const SymbolicShape& value, int first) {
  const std::span<const Dim> dims = row_dims(value, first);
  const std::vector<int> axes = transposition(row, dims);
  if (!axes.empty()) {
    return cat("; its sizes stand in another order: numpy.transpose(array, (", join(axes, ", "),
               ")) has the model's");
  }
  int64_t elements = 1;
  for (const Dim dim : dims) elements *= dim.is_constant() ? dim.factor : 0;
  if (elements != row.elements()) return "";
  return "; it has as many elements, in another layout: reshape the array, if that is what it "
         "means";
}

}  // namespace leat
