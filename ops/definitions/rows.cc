// leat.SumRows makes the gradient of a table by rows dense, for ops that need it dense. (The op
// that reads rows of a variable is in gather.cc.)
#include <algorithm>

#include "ops/definitions/definitions.h"
#include "ops/definitions/row_sum.h"

namespace leat {
namespace {

// The dense gradient has the table's number of rows, which the ids do not tell.
Status infer_sum_rows(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(infer_row_sum(ctx, 0, 1));
  SymbolicShape out = ctx.shape(0);
  out.set(0, Dim::of(attr_int(ctx.attrs(), "rows")));
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

}  // namespace

void register_rows_ops(Catalogue& catalogue) {
  catalogue.add(with_row_sum_attrs(Op("leat.SumRows")
                                       .input("values", "T")
                                       .input("ids", "Tind")
                                       .output("dense", "T")
                                       .type("T", kFloats)
                                       .type("Tind", kIndexTypes)
                                       .attr_required("rows", "int")
                                       .infer(infer_sum_rows)));
}

}  // namespace leat
