#include "ops/onnx/upgrade.h"

#include <algorithm>
#include <set>
#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

// Removes a plain attribute from a node and returns it.
std::optional<Attr> take(DraftNode& node, std::string_view name) {
  const auto it = node.attrs.find(name);
  if (it == node.attrs.end() || it->second.index() != 0) return std::nullopt;
  Attr attr = std::get<Attr>(std::move(it->second));
  node.attrs.erase(it);
  return attr;
}

// Removes an int attribute; `fallback` if it is absent or no int.
int64_t take_int(DraftNode& node, std::string_view name, int64_t fallback) {
  const std::optional<Attr> attr = take(node, name);
  const int64_t* value = attr ? std::get_if<int64_t>(&*attr) : nullptr;
  return value ? *value : fallback;
}

// An attribute as the tensor that newer versions have as an input.
Tensor tensor_of(const Attr& attr) {
  if (const auto* t = std::get_if<Tensor>(&attr)) return *t;
  if (const auto* i = std::get_if<int64_t>(&attr)) return Tensor::scalar<int64_t>(*i);
  if (const auto* f = std::get_if<double>(&attr)) {
    return Tensor::scalar<float>(static_cast<float>(*f));
  }
  if (const auto* v = std::get_if<std::vector<int64_t>>(&attr)) {
    return Tensor::of<int64_t>({static_cast<int64_t>(v->size())}, *v);
  }
  if (const auto* v = std::get_if<std::vector<double>>(&attr)) {
    return Tensor::of<float>({static_cast<int64_t>(v->size())},
                             std::vector<float>(v->begin(), v->end()));
  }
  return {};
}

// Inputs between are absent ones, which have an empty name.
void set_input(DraftNode& node, size_t index, DraftName value) {
  if (node.inputs.size() <= index) node.inputs.resize(index + 1, {"", node.offset});
  node.inputs[index] = std::move(value);
}

// A node with one output, at the place of the node that it replaces or serves.
DraftNode make(std::string op, size_t offset, std::vector<DraftName> inputs, std::string output,
               std::map<std::string, DraftAttr, std::less<>> attrs) {
  DraftNode node;
  node.offset = offset;
  node.op = std::move(op);
  node.inputs = std::move(inputs);
  node.outputs = {{std::move(output), offset}};
  node.attrs = std::move(attrs);
  return node;
}

// Attributes that became inputs.
struct Moved {
  std::string_view op, attr;
  size_t input;
  int since;
};
constexpr Moved kMoved[] = {
    {"Squeeze", "axes", 1, 13}, {"Unsqueeze", "axes", 1, 13}, {"ReduceSum", "axes", 1, 13},
    {"Split", "split", 1, 13},  {"Dropout", "ratio", 1, 12},  {"Clip", "min", 1, 11},
    {"Clip", "max", 2, 11},     {"Pad", "pads", 1, 11},       {"Pad", "value", 2, 11},
    {"Slice", "starts", 1, 10}, {"Slice", "ends", 2, 10},     {"Slice", "axes", 3, 10},
    {"TopK", "k", 1, 10},       {"Reshape", "shape", 1, 5},   {"Upsample", "scales", 1, 9},
};

// The reductions whose axes became an input in opset 18. ReduceSum had its own change in 13.
bool reduces(std::string_view op) {
  static const std::set<std::string, std::less<>> kOps = {
      "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",     "ReduceL1",
      "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};
  return kOps.contains(op);
}

}  // namespace

// Names that begin with "%" are made up: the graph does not keep them.
DraftName OnnxUpgrade::constant(Tensor value, size_t offset, Nodes& out) {
  const std::string name = cat("%upgrade", made_++);
  out.push_back(make("Constant", offset, {}, name, {{"value", Attr(std::move(value))}}));
  return {name, offset};
}

Status OnnxUpgrade::attr_to_input(DraftNode& node, std::string_view attr, size_t index,
                                  Nodes& out) {
  const std::optional<Attr> value = take(node, attr);
  if (!value) return {};
  Tensor tensor = tensor_of(*value);
  if (!tensor.valid()) {
    return invalid_argument(
        cat("the attribute '", attr, "': expected numbers, received ", attr_kind(*value)));
  }
  set_input(node, index, constant(std::move(tensor), node.offset, out));
  return {};
}

// Before opset 13, all axes from `axis` on were one: the result is the same only if `axis` is the
// last axis.
void OnnxUpgrade::softmax(DraftNode node, Nodes& out) {
  const int64_t axis = take_int(node, "axis", 1);
  const auto rank = node.inputs.empty() ? ranks_.end() : ranks_.find(node.inputs[0].name);
  const bool last = axis == -1 || (rank != ranks_.end() && axis == rank->second - 1);
  if (last || node.inputs.size() != 1 || node.outputs.size() != 1) {
    node.attrs["axis"] = Attr(int64_t{last ? -1 : axis});
    out.push_back(std::move(node));
    return;
  }
  // Flatten, softmax over the last axis, and back to the shape of x: Shape keeps symbolic sizes.
  const DraftName x = node.inputs[0];
  const std::string flat = cat("%upgrade", made_++), soft = cat("%upgrade", made_++);
  const std::string shape = cat("%upgrade", made_++);
  out.push_back(make("Flatten", node.offset, {x}, flat, {{"axis", Attr(axis)}}));
  out.push_back(make("Shape", node.offset, {x}, shape, {}));
  out.push_back(
      make(node.op, node.offset, {{flat, node.offset}}, soft, {{"axis", Attr(int64_t{-1})}}));
  DraftNode reshape = make("Reshape", node.offset, {{soft, node.offset}, {shape, node.offset}},
                           node.outputs[0].name, {});
  reshape.name = node.name;
  out.push_back(std::move(reshape));
}

// Before opset 7, the second operand was aligned with the first's axes from `axis` on; without
// `axis`, with its last axes, as now.
Status OnnxUpgrade::old_broadcast(DraftNode& node, Nodes& out) {
  take(node, "broadcast");
  const std::optional<Attr> attr = take(node, "axis");
  const int64_t* given = attr ? std::get_if<int64_t>(&*attr) : nullptr;
  if (given == nullptr || node.inputs.size() != 2) return {};
  const auto a = ranks_.find(node.inputs[0].name), b = ranks_.find(node.inputs[1].name);
  if (a == ranks_.end() || b == ranks_.end()) {
    return unimplemented("'axis' of opset 6: expected operands whose shapes the file declares");
  }
  // `behind` is the number of axes of operand 0 after the last one of operand 1: as many axes of
  // size 1 are appended.
  const int64_t axis = *given < 0 ? *given + a->second : *given;
  const int64_t behind = a->second - axis - b->second;
  if (axis < 0 || behind < 0) {
    return invalid_argument(cat("axis: expected operand 1 of rank ", b->second,
                                " to fit operand 0 of rank ", a->second, " from axis ", *given));
  }
  if (behind == 0) return {};
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < behind; ++i) axes.push_back(b->second + i);
  const DraftName added = constant(Tensor::of<int64_t>({behind}, axes), node.offset, out);
  const std::string laid = cat("%upgrade", made_++);
  out.push_back(make("Unsqueeze", node.offset, {node.inputs[1], added}, laid, {}));
  node.inputs[1] = {laid, node.offset};
  return {};
}

// Before opset 7, PRelu's slopes were those of the channels, axis 1 of x.
Status OnnxUpgrade::old_slopes(DraftNode& node, Nodes& out) {
  if (node.inputs.size() != 2) return {};
  const auto rank = ranks_.find(node.inputs[0].name);
  if (rank == ranks_.end())
    return unimplemented("PRelu of opset 6: expected an operand whose shape the file declares");
  std::vector<int64_t> axes;
  for (int64_t axis = 1; axis < rank->second - 1; ++axis) axes.push_back(axis);
  if (axes.empty()) return {};
  const auto count = static_cast<int64_t>(axes.size());
  const DraftName added = constant(Tensor::of<int64_t>({count}, axes), node.offset, out);
  const std::string laid = cat("%upgrade", made_++);
  out.push_back(make("Unsqueeze", node.offset, {node.inputs[1], added}, laid, {}));
  node.inputs[1] = {laid, node.offset};
  return {};
}

// The differences of opsets 1 to 6. Ops with another meaning in them are refused.
Status OnnxUpgrade::before_7(DraftNode& node, Nodes& out) {
  static const std::set<std::string, std::less<>> kBinary = {
      "Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"};
  take(node, "consumed_inputs");
  if (node.op == "Dropout") take(node, "is_test");  // as opset 7, which has no is_test
  if (node.op == "Gemm") take(node, "broadcast");
  if (node.op == "Concat" && opset_ < 4) node.attrs.try_emplace("axis", Attr(int64_t{1}));
  if (kBinary.contains(node.op)) LEAT_RETURN_IF_ERROR(old_broadcast(node, out));
  if (node.op == "Pad" && opset_ < 2) {
    if (auto pads = take(node, "paddings")) node.attrs["pads"] = std::move(*pads);
  }
  const bool other = (opset_ < 6 && (node.op == "Cast" || node.op == "Tile")) ||
                     (opset_ < 2 && node.op == "Split");
  if (node.op == "PRelu") return old_slopes(node, out);
  if (!other) return {};
  return unimplemented(cat("expected a model of opset 7 or later, received ", opset_));
}

// Training mode depended on the number of outputs before opset 14, and on is_test before opset 7.
Status OnnxUpgrade::batch_normalization(DraftNode& node) const {
  if (take_int(node, "spatial", 1) != 1) {
    return unimplemented("BatchNormalization with spatial = 0 is not supported");
  }
  if (opset_ >= 14) return {};
  // Training mode returned the updated statistics as outputs 1 and 2; 3 and 4 were for the
  // gradient.
  const bool tests = opset_ < 7 && take_int(node, "is_test", 0) == 1;
  const bool trains =
      !tests && std::count_if(node.outputs.begin(), node.outputs.end(),
                              [](const DraftName& o) { return !o.name.empty(); }) > 1;
  node.attrs["training_mode"] = Attr(int64_t{trains});
  if (node.outputs.size() > 3) node.outputs.resize(3);
  return {};
}

// value_int and similar attributes are other forms of value.
Status OnnxUpgrade::constant_node(DraftNode& node) const {
  for (const char* name : {"value_float", "value_floats", "value_int", "value_ints"}) {
    const std::optional<Attr> attr = take(node, name);
    if (attr) node.attrs["value"] = Attr(tensor_of(*attr));
  }
  const auto value = node.attrs.find("value");
  const bool tensor = value != node.attrs.end() && value->second.index() == 0 &&
                      std::holds_alternative<Tensor>(std::get<Attr>(value->second));
  if (tensor && node.attrs.size() == 1) return {};
  return unimplemented("Constant: expected a tensor of numbers as its value");
}

// Upsample, and Resize of opset 10, are a Resize with the scales alone.
Status OnnxUpgrade::old_resize(DraftNode& node) const {
  if (node.inputs.size() != 2)
    return invalid_argument(cat("expected 2 inputs, received ", node.inputs.size()));
  node.op = "Resize";
  node.inputs = {node.inputs[0], {"", node.offset}, node.inputs[1]};
  if (const auto mode = node.attrs.find("mode"); mode != node.attrs.end()) {
    // Opset 1 to 8 called it "bilinear".
    const Attr* attr = std::get_if<Attr>(&mode->second);
    const std::string* text = attr ? std::get_if<std::string>(attr) : nullptr;
    if (text && *text == "bilinear") mode->second = Attr(std::string("linear"));
  }
  node.attrs["coordinate_transformation_mode"] = Attr(std::string("asymmetric"));
  node.attrs["nearest_mode"] = Attr(std::string("floor"));
  return {};
}

// The Scan of opset 8 takes and gives batches: their first axis is that of the entries, and the
// second one that of the iterations.
Status OnnxUpgrade::batched_scan(DraftNode& node) const {
  if (node.inputs.empty() || !node.inputs[0].name.empty())
    return unimplemented("Scan of opset 8: expected no lengths of sequences");
  node.inputs.erase(node.inputs.begin());
  node.attrs["batched"] = Attr(int64_t{1});
  if (auto directions = take(node, "directions"))
    node.attrs["scan_input_directions"] = std::move(*directions);
  return {};
}

bool is_renamed_op(std::string_view domain, std::string_view op) {
  return domain.empty() && (op == "Upsample" || op == "Scatter");
}

Status OnnxUpgrade::add(DraftNode node, Nodes& out) {
  const std::string& op = node.op;
  // The order matters: before_7() gives nodes the attributes of opset 7, which the later rules
  // expect.
  if (opset_ < 7) LEAT_RETURN_IF_ERROR(before_7(node, out));
  if (op == "Constant") LEAT_RETURN_IF_ERROR(constant_node(node));
  if (op == "BatchNormalization") LEAT_RETURN_IF_ERROR(batch_normalization(node));
  if (opset_ < 13 && (op == "Softmax" || op == "LogSoftmax")) {
    softmax(std::move(node), out);
    return {};
  }
  for (const Moved& moved : kMoved) {
    if (op == moved.op && opset_ < moved.since) {
      LEAT_RETURN_IF_ERROR(attr_to_input(node, moved.attr, moved.input, out));
    }
  }
  if (op == "Upsample" || (op == "Resize" && opset_ < 11)) LEAT_RETURN_IF_ERROR(old_resize(node));
  if (op == "Scatter") node.op = "ScatterElements";
  if (opset_ < 18 && reduces(op)) LEAT_RETURN_IF_ERROR(attr_to_input(node, "axes", 1, out));
  if (opset_ < 9 && op == "Scan") LEAT_RETURN_IF_ERROR(batched_scan(node));
  if (opset_ < 16 && op == "RoiAlign") {
    node.attrs.try_emplace("coordinate_transformation_mode",
                           Attr(std::string("output_half_pixel")));
  }
  if (opset_ < 20 && op == "DFT") {
    const int64_t axis = take_int(node, "axis", 1);
    set_input(node, 2, constant(Tensor::scalar<int64_t>(axis), node.offset, out));
  }
  if (opset_ < 21 && op == "GroupNormalization") node.attrs["per_group"] = Attr(int64_t{1});
  // Before opset 18, the number of outputs alone asked for equal parts.
  if (opset_ < 18 && op == "Split" && node.inputs.size() < 2) {
    node.attrs["num_outputs"] = Attr(static_cast<int64_t>(node.outputs.size()));
  }
  out.push_back(std::move(node));
  return {};
}

}  // namespace leat
