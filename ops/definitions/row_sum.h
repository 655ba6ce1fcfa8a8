// The gradient of a table of which few rows are touched, as (values, ids): row ids[j] gets the line
// values[j]. These are the rules that the ops share that read one; ops/cpu/row_sum.h sums it.
#pragma once

#include "devices/base/status.h"
#include "ops/graph/op.h"

namespace leat {

// The attributes "shards" (the ids come from so many shards, one after the other and equally many
// from each) and "parts" (within a shard: how many are of each use of the table; empty: one use).
Op with_row_sum_attrs(Op op);

// Operand `values` must be [n, ...] and `ids` [n], and n what the attributes say.
Status infer_row_sum(const InferContext& ctx, int values, int ids);

// Does an Apply op with these attributes leave all rows as they are whose gradient is zero? If it
// is lazy, by definition; else it must be SGD (`plain_sgd`) without weight decay.
bool changes_touched_rows_only(bool plain_sgd, const Attrs& attrs);

inline int64_t row_shards(const Attrs& attrs) { return attr_int(attrs, "shards", 1); }

}  // namespace leat
