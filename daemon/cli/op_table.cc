#include "daemon/cli/op_table.h"

#include <algorithm>

#include "daemon/base/json_line.h"
#include "daemon/cli/table.h"
#include "devices/base/text.h"
#include "ops/data/source_options.h"
#include "ops/definitions/branches.h"
#include "ops/layers/control_flow.h"
#include "ops/layers/layers.h"
#include "ops/text/composites.h"
#include "ops/text/refused_ops.h"

namespace leat {
namespace {

// "floats", or the names of the types.
std::string set_text(const DTypeSet& set) {
  const std::pair<DTypeSet, const char*> known[] = {
      {kStoredTypes, "all and narrow"},  {kAllTypes, "all"},           {kNumbers, "numbers"},
      {kSigned, "signed numbers"},       {kFloats, "floats"},          {kInts, "integers"},
      {kFloats | kBool, "floats, bool"}, {kIndexTypes, "int32, int64"}};
  for (const auto& [types, name] : known) {
    if (types == set) return name;
  }
  std::vector<std::string> names;
  for (int code = 1; code < kDTypeCount; ++code) {
    if (const auto dtype = static_cast<DType>(code); set.has(dtype))
      names.emplace_back(column_type_name(dtype));
  }
  return join(names, ", ");
}

// Of the first input or output whose type is a variable, else that of the first one.
std::string types_text(const OpDef& op) {
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const Operand& operand : *operands) {
      if (const auto types = op.types.find(operand.type); types != op.types.end())
        return set_text(types->second);
    }
  }
  if (!op.inputs.empty()) return op.inputs[0].type;
  return op.outputs.empty() ? "" : op.outputs[0].type;
}

OpRow op_row_of(const OpDef& op) {
  OpRow row{op.full_name(), op.domain, op.since, op.gradient ? "yes" : "no", types_text(op), {}};
  // A layer is replaced by other ops when a file is loaded, as a composite is.
  if (is_layer(op)) row.gradient = "composite", row.types = "floats";
  if (is_control_flow(op)) row.gradient = "composite";
  for (const auto& [device, kernel] : op.kernels) row.devices.push_back(device);
  return row;
}

bool is_own(const OpRow& row) { return row.domain == "leat"; }

std::string devices_text(const OpRow& row) {
  if (row.gradient == "composite") return "those of its parts";
  return row.devices.empty() ? "-" : join(row.devices, ", ");
}

std::string types_or_parts(const OpRow& row) {
  if (!row.types.empty()) return row.types;
  return row.gradient == "composite" ? "those of its parts" : "-";
}

std::vector<std::vector<std::string>> cells(const std::vector<OpRow>& rows) {
  std::vector<std::vector<std::string>> out;
  for (const OpRow& row : rows) {
    out.push_back({row.name, is_own(row) ? "-" : std::to_string(row.opset), row.gradient,
                   types_or_parts(row), devices_text(row)});
  }
  return out;
}

std::string markdown_rows(const std::vector<OpRow>& rows, bool own) {
  std::string out;
  for (const OpRow& row : rows) {
    if (is_own(row) != own) continue;
    const std::string opset = own ? "" : cat(" | ", row.opset);
    out += cat("| `", row.name, "`", opset, " | ", row.gradient, " | ", types_or_parts(row), " | ",
               devices_text(row), " |\n");
  }
  return out;
}

constexpr const char* kPageHead = R"(# The ops

`leat graph ops` prints this table, and `--markdown` this page, which a test compares with it; with
`--json` it prints one object a line. A graph file may have nodes of these ops. *Opset* is the
version of ONNX's op that Leat follows; the importer upgrades older nodes to it. `Upsample` and
`Scatter`, which ONNX has no more, become `Resize` and `ScatterElements`.

The column *gradient* tells whether a graph can be trained through the op. A *composite* is made of
other ops when a file is loaded, and has their gradients and types. *Floats* are float32, float64,
float16 and bfloat16. *Narrow* are types that values are only stored in, and that ops cast before
they compute: floats of 8, 6 and 4 bits (`float8e4m3fn`, `float8e4m3fnuz`, `float8e5m2`,
`float8e5m2fnuz`, `float8e8m0`, `float6e2m3`, `float6e3m2`, `float4e2m1`) and integers of 4 and 2
(`int4`, `uint4`, `int2`, `uint2`). In memory each element is a byte.

| ONNX's op | opset | gradient | types | devices |
| --- | --- | --- | --- | --- |
)";

constexpr const char* kPageOwn = R"(
## Leat's own ops

A device of `-` means that passes replace the op before a step runs, or that it makes a resource.
The [layers](layers.md) are among them.

| op | gradient | types | devices |
| --- | --- | --- | --- |
)";

constexpr const char* kPageRefused = R"(
## Refused

The importer refuses a model with one of ONNX's other ops, and names all of them with their nodes.

| ONNX's op | reason |
| --- | --- |
)";

}  // namespace

std::vector<OpRow> op_rows(const Catalogue& catalogue) {
  std::vector<OpRow> rows;
  for (const OpDef* op : catalogue.all()) {
    // No file has the conditional forms of ops, which a pass makes of nodes in branches.
    if (op->domain != kWhen) rows.push_back(op_row_of(*op));
  }
  for (const CompositeOp& op : composite_ops()) {
    const size_t dot = op.name.rfind('.');
    const std::string domain = dot == std::string::npos ? "" : op.name.substr(0, dot);
    rows.push_back({op.name, domain, op.since, "composite", "", {}});
  }
  std::ranges::sort(rows, {}, [](const OpRow& row) { return std::pair(row.domain, row.name); });
  return rows;
}

std::string op_table(const Catalogue& catalogue) {
  std::string out = format_table({"OP", "OPSET", "GRADIENT", "TYPES", "DEVICES"},
                                 cells(op_rows(catalogue)), true);
  std::vector<std::vector<std::string>> refused;
  for (const RefusedOp& op : refused_ops())
    refused.push_back({std::string(op.name), std::string(op.reason)});
  return out + "\n" + format_table({"REFUSED", "REASON"}, refused, true);
}

std::string op_lines_json(const Catalogue& catalogue) {
  std::string out;
  for (const OpRow& row : op_rows(catalogue)) {
    JsonLine line;
    line.add("apiVersion", "leat/v1").add("kind", "Op").add("name", row.name);
    line.add("domain", row.domain).add("opset", row.opset).add("gradient", row.gradient);
    out += line.add("types", row.types).add("devices", join(row.devices, ",")).text();
  }
  for (const RefusedOp& op : refused_ops()) {
    JsonLine line;
    line.add("apiVersion", "leat/v1").add("kind", "RefusedOp").add("name", op.name);
    out += line.add("domain", "").add("reason", op.reason).text();
  }
  return out;
}

std::string op_page(const Catalogue& catalogue) {
  const std::vector<OpRow> rows = op_rows(catalogue);
  std::string out = kPageHead + markdown_rows(rows, false) + kPageOwn + markdown_rows(rows, true);
  out += kPageRefused;
  for (const RefusedOp& op : refused_ops()) out += cat("| `", op.name, "` | ", op.reason, " |\n");
  return out;
}

}  // namespace leat
