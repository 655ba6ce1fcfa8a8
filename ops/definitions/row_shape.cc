#include "ops/definitions/row_shape.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "devices/base/text.h"

namespace leat {
namespace {

// True if a row's size may stand at this place of the model: a symbol takes any size.
bool takes(Dim dim, int64_t size) { return !dim.is_constant() || dim.factor == size; }

// The model's sizes from dimension `first` on: those of one row.
std::span<const Dim> row_dims(const SymbolicShape& value, int first) {
  return value.dims().subspan(static_cast<size_t>(std::min(first, value.rank())));
}

// The plain case: as many sizes as the model has, each equal or for a symbol.
std::optional<Shape> size_by_size(const Shape& row, std::span<const Dim> dims) {
  if (static_cast<size_t>(row.rank()) != dims.size()) return std::nullopt;
  if (!std::equal(dims.begin(), dims.end(), row.begin(), takes)) return std::nullopt;
  return row;
}

// The sizes of a row without those that are 1.
std::optional<Shape> squeezed(const Shape& row, std::span<const Dim> dims) {
  Shape out;
  int next = 0;
  // Walks both lists at once. Sizes of 1 in the row are skipped before each size of the model, and
  // the model's own sizes of 1 take nothing from the row.
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

// A symbol is refused here: it would accept every row, whatever the number of its elements.
std::optional<Shape> flattened(const Shape& row, std::span<const Dim> dims) {
  if (dims.size() != 1 || dims[0] != Dim::of(row.elements())) return std::nullopt;
  return Shape{row.elements()};
}

// The order matters: a row that fits size by size keeps its own sizes of 1.
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

// The hint names the call of numpy that brings the array into the model's order.
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
