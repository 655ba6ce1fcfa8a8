// The gradient of a table of which a step touches few rows, as (values, ids): the gradient of row
// ids[j] includes the line values[j]. The ops that read such gradients share these rules;
// ops/cpu/row_sum.h computes the sums.
#pragma once

#include <vector>

#include "devices/base/status.h"
#include "ops/graph/op.h"

namespace leat {

// Adds the attributes "shards" (the ids are a concatenation over this many shards, with the same
// number from each) and "parts" (within a shard: the number of ids of each use of the table; empty:
// one use).
Op with_row_sum_attrs(Op op);

// Checks that operand `values` is [n, ...], that `ids` is [n], and that n agrees with the
// attributes.
Status infer_row_sum(const InferContext& ctx, int values, int ids);

// True if an Apply op with these attributes changes no row whose gradient is zero. A lazy op
// changes none by definition; any other op must be SGD (`plain_sgd`) without weight decay.
bool changes_touched_rows_only(bool plain_sgd, const Attrs& attrs);

inline int64_t row_shards(const Attrs& attrs) { return attr_int(attrs, "shards", 1); }

// The lines of such a gradient, as its ids are cut into shards and parts.
struct RowLines {
  int64_t ids = 0, shards = 1;
  std::vector<int64_t> part_ends;  // within a shard: behind each use of the table; never empty
};
// Those of operands `values` and `ids` of concrete types, for a table of rows of `width` elements.
// invalid_argument, without a subject, if they do not fit each other or the attributes.
Result<RowLines> row_lines(const OperandType& values, const OperandType& ids, const Attrs& attrs,
                           int64_t width);

}  // namespace leat
