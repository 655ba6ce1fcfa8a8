// Large values in pieces: ranges of a value's elements in row-major order, and the value that joins
// them. A plan avoids the copies if it can: a Range then is an offset into the bytes of its value,
// and the pieces of a Join are computed or received at their place in the joined value.
#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/variable.h"

namespace leat {
namespace {

// The comparison subtracts on the right, so that first + count cannot overflow.
Status infer_range(InferContext& ctx) {
  const int64_t first = attr_int(ctx.attrs(), "first"), count = attr_int(ctx.attrs(), "count");
  const auto shape = ctx.shape(0).concrete();
  if (shape &&
      (first < 0 || count < 0 || first > shape->elements() || count > shape->elements() - first)) {
    return ctx.error(cat("expected a range of ", shape->elements(), " elements, received ", count,
                         " from ", first));
  }
  if (count < 0) return ctx.error(cat("count: expected at least 0, received ", count));
  ctx.set_tensor(0, ctx.dtype(0), SymbolicShape(Shape{count}));
  return {};
}

// The pieces must have exactly the elements of the shape; each piece may have any shape of its own.
Status infer_join(InferContext& ctx) {
  const auto shape = Shape::checked(attr_ints(ctx.attrs(), "shape"));
  if (!shape) return ctx.error("shape: expected sizes >= 0");
  int64_t elements = 0;
  for (int i = 0; i < ctx.inputs(); ++i) {
    const auto piece = ctx.shape(i).concrete();
    if (!piece) return ctx.error("expected pieces of known sizes");
    const auto sum = checked_add(elements, piece->elements());
    if (!sum) return ctx.error("the pieces are too large");
    elements = *sum;
  }
  if (elements != shape->elements())
    return ctx.error(cat("expected pieces of ", shape->elements(), " elements for ", *shape,
                         ", received ", elements));
  ctx.set_tensor(0, ctx.dtype(0), *shape);
  return {};
}

}  // namespace

void register_piece_ops(Catalogue& catalogue) {
  // y is the `count` elements of x from `first` on.
  catalogue.add(Op("leat.Range")
                    .input("x", "T")
                    .output("y", "T")
                    .type("T", kStoredTypes)
                    .attr("first", int64_t{0})
                    .attr("count", int64_t{0})
                    .view()
                    .infer(infer_range));
  // y is the concatenation of the elements of all pieces, in their order.
  catalogue.add(Op("leat.Join")
                    .variadic_input("pieces", "T")
                    .output("y", "T")
                    .type("T", kStoredTypes)
                    .attr("shape", std::vector<int64_t>())
                    .infer(infer_join));
}

}  // namespace leat
