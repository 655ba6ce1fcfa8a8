// Input readers. A batch is a pure function of its index: which records it holds follows from the
// attributes alone, so a restart, another number of shards or a copy of the step reads the same.
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

struct ElementType {
  DType dtype;
  Shape shape;
};

// The type of one record or one label, from attributes `<what>_dtype` and `<what>_shape`.
Result<ElementType> element_type(const Attrs& attrs, const std::string& what) {
  const std::string name = attr_string(attrs, what + "_dtype");
  const auto dtype = dtype_from_name(name);
  if (!dtype)
    return invalid_argument(cat(what, "_dtype: expected a type's name, received '", name, "'"));
  const auto sizes = attr_ints(attrs, what + "_shape");
  const auto shape = Shape::checked(sizes);
  if (!shape || shape->rank() >= kMaxRank) {
    return invalid_argument(cat(what, "_shape: expected at most ", kMaxRank - 1,
                                " sizes >= 0, received [", join(sizes, ","), "]"));
  }
  return ElementType{*dtype, *shape};
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
  const int64_t global_batch = attr_int(attrs, "global_batch"), rows = attr_int(attrs, "rows");
  if (global_batch < 1)
    return ctx.error(cat("global_batch: expected >= 1, received ", global_batch));
  if (rows < 1 || rows > global_batch) {
    return ctx.error(
        cat("rows: expected 1 to ", global_batch, ", the global batch, received ", rows));
  }
  const auto record = element_type(attrs, "record"), label = element_type(attrs, "label");
  if (!record.ok()) return ctx.error(record.status().message());
  if (!label.ok()) return ctx.error(label.status().message());
  ctx.set_tensor(0, record->dtype, batch_shape(rows, record->shape));
  if (ctx.wants_output(1)) ctx.set_tensor(1, label->dtype, batch_shape(rows, label->shape));
  if (ctx.wants_output(2)) ctx.set_tensor(2, DType::f32, Shape{rows});
  return {};
}

Tiling tile_rows(const OpTypes& types) { return {attr_int(*types.attrs, "rows"), 0, 0b111}; }

// Which record stands at a position of the endless sequence of epochs, each in an order of its own.
// A walk: positions that ascend cost one permutation an epoch.
class EpochOrder {
 public:
  EpochOrder(int64_t count, bool shuffle, uint64_t seed)
      : count_(count), shuffle_(shuffle), seed_(seed), order_(static_cast<uint64_t>(count), 0) {}

  int64_t record(int64_t position) {
    const int64_t epoch = position / count_, place = position % count_;
    if (!shuffle_) return place;
    if (epoch != epoch_) {
      order_ = Permutation(static_cast<uint64_t>(count_), key(static_cast<uint64_t>(epoch)));
      epoch_ = epoch;
    }
    return static_cast<int64_t>(order_(static_cast<uint64_t>(place)));
  }

 private:
  uint64_t key(uint64_t epoch) const {
    constexpr uint32_t kTag = 0x45504f43;  // "EPOC": apart from other numbers drawn with this seed
    const auto words =
        philox({static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32), kTag, 0},
               {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    return uint64_t{words[1]} << 32 | words[0];
  }

  const int64_t count_;
  const bool shuffle_;
  const uint64_t seed_;
  int64_t epoch_ = -1;
  Permutation order_;
};

class ReadBatchKernel final : public Kernel {
 public:
  ReadBatchKernel(const KernelSetup& setup, const Dataset& dataset)
      : dataset_(dataset),
        subject_(setup.subject),
        global_batch_(attr_int(setup.attrs(), "global_batch")),
        rows_(attr_int(setup.attrs(), "rows")),
        first_row_(setup.node ? setup.node->first_row : 0),
        tile_rows_(setup.tile_rows > 0
                       ? setup.tile_rows
                       : default_tile_rows(rows_, dataset.info().record_shape.elements())),
        seed_(static_cast<uint64_t>(attr_int(setup.attrs(), "seed"))),
        shuffle_(attr_int(setup.attrs(), "shuffle") != 0),
        wrap_(attr_int(setup.attrs(), "wrap") != 0),
        outputs_(setup.types.outputs.size()) {}

  int tiles(int) const override { return tile_count(rows_, tile_rows_); }

  Progress run(KernelContext& context, int, int tile) override {
    const int64_t index = *context.in<int64_t>(0);
    const auto batch = checked_mul(index, global_batch_);
    if (index < 0 || !batch || !checked_add(*batch, global_batch_)) {
      context.step->fail(
          context.instruction,
          invalid_argument(cat(subject_, ": index: expected 0 to ", INT64_MAX / global_batch_ - 1,
                               ", received ", index)));
      return Progress::failed;
    }
    EpochOrder order(dataset_.info().count, shuffle_, seed_);
    const int64_t begin = tile * tile_rows_, end = std::min(rows_, begin + tile_rows_);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t position = *batch + first_row_ + row;
      const bool real = wrap_ || position < dataset_.info().count;
      write_row(context, row, real ? order.record(position) : -1);
    }
    return Progress::done;
  }

 private:
  // A record of -1 is no record: weight 0. The first one stands there, for a model may make NaN of
  // zeros, which no weight takes away.
  void write_row(KernelContext& context, int64_t row, int64_t record) const {
    const float weight = record >= 0 ? 1.0f : 0.0f;
    const int64_t shown = std::max<int64_t>(0, record);
    write(context, 0, row, dataset_.record(shown), dataset_.record_bytes());
    write(context, 1, row, dataset_.label(shown), dataset_.label_bytes());
    write(context, 2, row, &weight, sizeof(weight));
  }
  // One row of an output, if it is wanted.
  void write(KernelContext& context, size_t output, int64_t row, const void* from,
             int64_t bytes) const {
    if (output >= outputs_ || !context.outputs[output] || bytes == 0) return;
    std::memcpy(static_cast<std::byte*>(context.outputs[output]) + row * bytes, from,
                static_cast<size_t>(bytes));
  }

  const Dataset& dataset_;
  const std::string subject_;
  const int64_t global_batch_, rows_, first_row_, tile_rows_;
  const uint64_t seed_;
  const bool shuffle_, wrap_;
  const size_t outputs_;  // the last ones may be absent
};

Status expect_type(const KernelSetup& setup, const std::string& what, DType dtype,
                   const Shape& shape) {
  LEAT_ASSIGN_OR_RETURN(const ElementType expected, element_type(setup.attrs(), what));
  if (expected.dtype == dtype && expected.shape == shape) return {};
  return failed_precondition(cat(setup.subject, ": ", what, ": expected ", expected.dtype,
                                 expected.shape, " as the attributes say, the files hold ", dtype,
                                 shape));
}

Result<std::unique_ptr<Kernel>> make_read_batch(const KernelSetup& setup) {
  if (!setup.resources) {
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  }
  const Attrs& attrs = setup.attrs();
  const int64_t first_row = setup.node ? setup.node->first_row : 0, rows = attr_int(attrs, "rows");
  if (first_row < 0 || first_row > attr_int(attrs, "global_batch") - rows) {
    return invalid_argument(cat(setup.subject, ": rows: expected to lie in the global batch of ",
                                attr_int(attrs, "global_batch"), ", received ", rows,
                                " rows from row ", first_row));
  }
  const auto dataset = Dataset::find_or_open(
      *setup.resources, {attr_string(attrs, "format"), attr_string(attrs, "features"),
                         attr_string(attrs, "labels"), setup.resources->data_root()});
  if (!dataset.ok())
    return dataset.status().while_doing(cat("opening the data of ", setup.subject));
  const DatasetInfo& info = (*dataset)->info();
  LEAT_RETURN_IF_ERROR(expect_type(setup, "record", info.record_dtype, info.record_shape));
  LEAT_RETURN_IF_ERROR(expect_type(setup, "label", info.label_dtype, info.label_shape));
  return std::unique_ptr<Kernel>(std::make_unique<ReadBatchKernel>(setup, **dataset));
}

}  // namespace

// Row i of the instance stands at position p = index x global_batch + Node::first_row + i. With
// wrap, it holds place p % count of epoch p / count, in the order of that epoch; without, records
// end at position count, and what follows is the first record with weight 0.
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
                    .tiling(tile_rows)
                    .kernel("cpu", make_read_batch));
}

}  // namespace leat
