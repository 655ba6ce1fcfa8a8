// Input readers. A batch is a pure function of its index: the attributes alone determine its
// rows, so that a restart, another number of shards or a copy of the step reads the same ones.
#include "ops/definitions/input.h"

#include <algorithm>
#include <charconv>

#include "devices/base/text.h"
#include "ops/data/sharding.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// The index is whole and all outputs are of rows: each row is read on its own.
Tiling batch_rows_tiling(const OpTypes& types) {
  const uint32_t outputs = static_cast<uint32_t>(types.outputs.size());
  return {attr_int(*types.attrs, "rows"), 0, (uint32_t{1} << outputs) - 1};
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
  // A shard reads `rows` of the global batch, from its first_row on.
  const int64_t global_batch = attr_int(attrs, "global_batch"), rows = attr_int(attrs, "rows");
  if (global_batch < 1)
    return ctx.error(cat("global_batch: expected >= 1, received ", global_batch));
  if (rows < 1 || rows > global_batch) {
    return ctx.error(
        cat("rows: expected 1 to ", global_batch, ", the global batch, received ", rows));
  }
  const auto sharding = sharding_from_name(attr_string(attrs, "sharding"));
  if (!sharding) {
    return ctx.error(cat("sharding: expected one of ", join(kShardings, ", "), ", received '",
                         attr_string(attrs, "sharding"), "'"));
  }
  if (*sharding != Sharding::data && (global_batch % rows != 0 || attr_int(attrs, "wrap") == 0)) {
    return ctx.error(cat("sharding: ", sharding_name(*sharding),
                         ": expected wrap and shards of the same number of rows, received ", rows,
                         " of ", global_batch, " rows and wrap ", attr_int(attrs, "wrap")));
  }
  const auto columns = reader_columns(attrs);
  if (!columns.ok()) return ctx.error(columns.status().message());
  const Status named = check_dataset_files(reader_files(attrs, ""));
  if (!named.ok()) return ctx.error(named.message());
  const int count = static_cast<int>(columns->size());
  for (int c = 0; c < count; ++c) {
    const ColumnInfo& column = (*columns)[static_cast<size_t>(c)];
    if (ctx.wants_output(c)) ctx.set_tensor(c, column.dtype, batch_shape(rows, column.shape));
  }
  if (ctx.wants_output(count)) ctx.set_tensor(count, DType::f32, Shape{rows});
  if (!ctx.wants_output(count + 1)) return {};
  return ctx.error(cat("expected at most ", count + 1, " outputs, the columns and the weights"));
}

std::vector<std::string> attr_texts(const Attrs& attrs, std::string_view name) {
  const auto found = attrs.find(name);
  const auto* texts =
      found == attrs.end() ? nullptr : std::get_if<std::vector<std::string>>(&found->second);
  return texts ? *texts : std::vector<std::string>();
}

}  // namespace

std::string column_type_text(const ColumnInfo& column) {
  return cat(column.dtype, "[", join(column.shape, ","), "]");
}

Result<ColumnInfo> parse_column_type(std::string_view text) {
  const auto wrong = [&] {
    return invalid_argument(cat("types: expected a type such as uint8[28,28] with at most ",
                                kMaxRank - 1, " sizes >= 0, received '", text, "'"));
  };
  const size_t bracket = text.find('[');
  const auto dtype = dtype_from_name(text.substr(0, bracket));
  if (bracket == std::string_view::npos || text.back() != ']' || !dtype) return wrong();
  std::vector<int64_t> sizes;
  const char *at = text.data() + bracket + 1, *last = text.data() + text.size() - 1;
  while (at < last) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(at, last, size);
    if (error != std::errc() || (end != last && *end != ',') || end + 1 == last) return wrong();
    sizes.push_back(size);
    at = end == last ? last : end + 1;
  }
  const auto shape = Shape::checked(sizes);
  if (!shape || shape->rank() >= kMaxRank) return wrong();
  return ColumnInfo{"", *dtype, *shape};
}

Attrs reader_attributes(const DatasetFiles& names, const DatasetInfo& info) {
  std::vector<std::string> columns = names.columns, types;
  // Named one by one, so that the graph says which output is which.
  if (columns.empty()) {
    for (const ColumnInfo& column : info.columns) columns.push_back(column.name);
  }
  for (const ColumnInfo& column : info.columns) types.push_back(column_type_text(column));
  Attrs attrs{
      {"format", names.format}, {"files", names.files}, {"columns", columns}, {"types", types}};
  if (names.format == "tokens") {
    attrs["window"] = names.window;
    attrs["stride"] = names.stride;
    attrs["token_dtype"] = std::string(dtype_name(names.element));
  }
  if (!names.options.empty()) attrs["options"] = names.options;
  return attrs;
}

DatasetFiles reader_files(const Attrs& attrs, std::string root) {
  DatasetFiles names;
  names.format = attr_string(attrs, "format");
  names.files = attr_texts(attrs, "files");
  names.root = std::move(root);
  names.columns = attr_texts(attrs, "columns");
  names.window = attr_int(attrs, "window");
  names.stride = attr_int(attrs, "stride");
  names.element = dtype_from_name(attr_string(attrs, "token_dtype")).value_or(DType::invalid);
  names.options = attr_texts(attrs, "options");
  return names;
}

Result<std::vector<ColumnInfo>> reader_columns(const Attrs& attrs) {
  const std::vector<std::string> columns = attr_texts(attrs, "columns"),
                                 types = attr_texts(attrs, "types");
  if (columns.empty() || columns.size() != types.size() || columns.size() > kMostColumns) {
    return invalid_argument(cat("columns: expected 1 to ", kMostColumns,
                                " columns with a type for each, ", "received ", columns.size(),
                                " columns and ", types.size(), " types"));
  }
  std::vector<ColumnInfo> out;
  for (size_t i = 0; i < columns.size(); ++i) {
    LEAT_ASSIGN_OR_RETURN(const ColumnView view, parse_column_view(columns[i]));
    LEAT_ASSIGN_OR_RETURN(ColumnInfo column, parse_column_type(types[i]));
    column.name = view.name;
    out.push_back(std::move(column));
  }
  return out;
}

// Row i of the instance is at position p = index x global_batch + Node::first_row + i. With wrap,
// it is row p % count of epoch p / count, in the order of that epoch. Without wrap, rows end at
// position count, or at `limit` if that is greater than 0 and less, and each row after that is the
// first one with weight 0.
//
// The sharding `data` is this order. With `file` and `off` the instance is a shard, of number
// first_row / rows, which has rows of its own (ops/data/sharding.h): row i is at position index x
// rows + i of the endless sequence of its own epochs.
//
// The outputs are the columns in their order and then, if there is one output more, the weights:
// float[rows], 1 or 0.
void register_input_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.ReadBatch")
                    .input("index", "int64")
                    .variadic_output("columns", "any", true)
                    .attr_required("format", "string")
                    .attr_required("files", "strings")
                    .attr_required("columns", "strings")
                    .attr_required("types", "strings")
                    .attr("window", int64_t{0})
                    .attr("stride", int64_t{0})
                    .attr("token_dtype", std::string())
                    .attr("options", std::vector<std::string>())
                    .attr_required("global_batch", "int")
                    .attr_required("rows", "int")
                    .attr("shuffle", int64_t{1})
                    .attr("seed", int64_t{0})
                    .attr("wrap", int64_t{1})
                    .attr("limit", int64_t{0})
                    .attr("sharding", std::string("data"))
                    .stateful()
                    .per_shard()
                    .infer(infer_read_batch)
                    .tiling(batch_rows_tiling));
}

}  // namespace leat
