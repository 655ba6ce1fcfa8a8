#include "ops/definitions/row_sum.h"

#include <numeric>

#include "devices/base/text.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/limits.h"

namespace leat {

// The defaults describe ids of one shard and of one use of the table.
Op with_row_sum_attrs(Op op) {
  return op.attr("shards", int64_t{1}).attr("parts", std::vector<int64_t>());
}

// The definitions of leat.SumRows and of the Apply ops call this during inference. Sizes that are
// still symbolic pass; RowSum::make() checks them again when they are concrete.
Status infer_row_sum(const InferContext& ctx, int values, int ids) {
  const SymbolicShape &of_values = ctx.shape(values), &of_ids = ctx.shape(ids);
  // Only the first axes must agree: the other axes of the values are those of a row of the table,
  // which this function does not know.
  const bool fits =
      of_ids.rank() == 1 && of_values.rank() >= 1 &&
      (of_values[0] == of_ids[0] || !of_values.is_constant() || !of_ids.is_constant());
  if (!fits) {
    return ctx.error(cat("expected ids [n] and values [n,...], received ids ", ctx.text(of_ids),
                         " and values ", ctx.text(of_values)));
  }
  // The sum of the parts cannot overflow: a list has at most 10^6 entries of at most 2^40 each.
  const int64_t shards = row_shards(ctx.attrs());
  if (shards < 1) return ctx.error(cat("shards: expected at least 1, received ", shards));
  const auto parts = attr_ints(ctx.attrs(), "parts");
  int64_t of_shard = 0;
  for (const int64_t part : parts) {
    if (part < 0 || part > limits::kElements)
      return ctx.error(cat("parts: expected counts of ids, received ", part));
    of_shard += part;
  }
  // Each shard must have the same number of ids, because a kernel finds the shard and the part of a
  // line from its position alone.
  const auto n = constant_of(of_ids[0]);
  if (!n || (*n % shards == 0 && (parts.empty() || *n / shards == of_shard))) return {};
  return ctx.error(cat("expected ids of ", shards, " shards",
                       parts.empty() ? "" : cat(" with ", of_shard, " each"), ", received ", *n));
}

Result<RowLines> row_lines(const OperandType& values, const OperandType& ids, const Attrs& attrs,
                           int64_t width) {
  RowLines lines;
  lines.ids = ids.shape.elements();
  lines.shards = row_shards(attrs);
  lines.part_ends = attr_ints(attrs, "parts");
  std::partial_sum(lines.part_ends.begin(), lines.part_ends.end(), lines.part_ends.begin());
  // All shards have the same number of ids; without parts, a shard has one use.
  const int64_t each = lines.ids / lines.shards;
  if (lines.part_ends.empty()) lines.part_ends = {each};
  if (values.shape.elements() == lines.ids * width && each * lines.shards == lines.ids &&
      lines.part_ends.back() == each)
    return lines;
  return invalid_argument(cat("expected lines of ", width, " elements from ", lines.shards,
                              " shards of ", lines.part_ends.back(), " ids, received ",
                              values.shape, " and ids ", ids.shape));
}

// Momentum and Adam change a row even if its gradient is zero, since their slots decay. Weight
// decay changes every row of any optimizer that is not lazy.
bool changes_touched_rows_only(bool plain_sgd, const Attrs& attrs) {
  return attr_int(attrs, "lazy") != 0 || (plain_sgd && attr_float(attrs, "weight_decay") == 0);
}

}  // namespace leat
