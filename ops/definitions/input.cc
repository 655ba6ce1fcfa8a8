// Input readers. A batch is a pure function of its index: the attributes alone determine its
// records, so that a restart, another number of shards or a copy of the step reads the same ones.
#include "ops/definitions/input.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/data/dataset.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/op.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// The index is whole and all three outputs are of rows: each row is read on its own.
Tiling batch_rows_tiling(const OpTypes& types) {
  return {attr_int(*types.attrs, "rows"), 0, 0b111};
}

Shape batch_shape(int64_t rows, const Shape& element) {
  Shape shape{rows};
  for (int64_t size : element) shape.push_back(size);
  return shape;
}

Status infer_read_batch(InferContext& ctx) {
  const Attrs& attrs = ctx.attrs();
  if (ctx.shape(0).rank() != 0) {
    return ctx.error(cat("index: expected a scalar, received ", ctx.text(ctx.shape(0))));
  }
  const std::string format = attr_string(attrs, "format");
  if (format != "idx" && format != "npy") {
    return ctx.error(cat("format: expected 'idx' or 'npy', received '", format, "'"));
  }
  // A shard reads `rows` of the global batch, from its first_row on.
  const int64_t global_batch = attr_int(attrs, "global_batch"), rows = attr_int(attrs, "rows");
  if (global_batch < 1)
    return ctx.error(cat("global_batch: expected >= 1, received ", global_batch));
  if (rows < 1 || rows > global_batch) {
    return ctx.error(
        cat("rows: expected 1 to ", global_batch, ", the global batch, received ", rows));
  }
  const auto record = batch_element(attrs, "record"), label = batch_element(attrs, "label");
  if (!record.ok()) return ctx.error(record.status().message());
  if (!label.ok()) return ctx.error(label.status().message());
  ctx.set_tensor(0, record->dtype, batch_shape(rows, record->shape));
  if (ctx.wants_output(1)) ctx.set_tensor(1, label->dtype, batch_shape(rows, label->shape));
  if (ctx.wants_output(2)) ctx.set_tensor(2, DType::f32, Shape{rows});
  return {};
}

}  // namespace

// Row i of the instance is at position p = index x global_batch + Node::first_row + i. With wrap,
// it is record p % count of epoch p / count, in the order of that epoch. Without wrap, records end
// at position count, and each row after that is the first record with weight 0.
void register_input_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.ReadBatch")
                    .input("index", "int64")
                    .output("features", "any")
                    .optional_output("labels", "any")
                    .optional_output("weights", "float")
                    .attr_required("format", "string")
                    .attr_required("features", "string")
                    .attr_required("labels", "string")
                    .attr_required("record_shape", "ints")
                    .attr("record_dtype", std::string("uint8"))
                    .attr("label_shape", std::vector<int64_t>())
                    .attr("label_dtype", std::string("uint8"))
                    .attr_required("global_batch", "int")
                    .attr_required("rows", "int")
                    .attr("shuffle", int64_t{1})
                    .attr("seed", int64_t{0})
                    .attr("wrap", int64_t{1})
                    .stateful()
                    .per_shard()
                    .infer(infer_read_batch)
                    .tiling(batch_rows_tiling));
}

}  // namespace leat
