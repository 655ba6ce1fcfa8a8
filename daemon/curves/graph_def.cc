#include "daemon/curves/graph_def.h"

#include <array>
#include <cctype>
#include <set>
#include <variant>

#include "daemon/curves/proto_fields.h"
#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// NodeDef, AttrValue, its ListValue, TensorShapeProto and its Dim.
enum NodeField : int { kName = 1, kOp = 2, kInput = 3, kDevice = 4, kAttr = 5 };
enum AttrField : int { kList = 1, kText = 2, kInt = 3, kFloat = 4, kType = 6 };
enum ListField : int { kTexts = 2, kInts = 3, kShapes = 7 };
enum ShapeField : int { kDim = 2, kSize = 1, kSizeName = 2, kUnknownRank = 3 };

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-' || c == '/';
}

// DataType of tensorflow/core/framework/types.proto, by DType. 0: none.
constexpr std::array<int64_t, kDTypeCount> kDataTypes = {
    0, 1, 2, 19, 14, 6, 5, 3, 9, 4, 17, 22, 23, 10, 25, 26, 24, 28, 0, 0, 0, 33, 29, 30, 31, 32};

void add_attr(ProtoFields& node, std::string_view name, const ProtoFields& value) {
  node.add(kAttr, ProtoFields().add(1, name).add(2, value));
}

ProtoFields value_of(const Attr& attr) {
  ProtoFields value, list;
  if (const auto* number = std::get_if<int64_t>(&attr)) value.add(kInt, *number);
  if (const auto* number = std::get_if<double>(&attr))
    value.add(kFloat, static_cast<float>(*number));
  if (const auto* text = std::get_if<std::string>(&attr)) value.add(kText, *text);
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&attr)) {
    for (const int64_t each : *numbers) list.add(kInts, each);
    value.add(kList, list);
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attr)) {
    for (const std::string& each : *texts) list.add(kTexts, each);
    value.add(kList, list);
  }
  return value;
}

// Makes the nodes of one graph.
class GraphDefWriter {
 public:
  explicit GraphDefWriter(const Graph& graph) : graph_(graph), names_(graph.values()) {}

  std::string write() {
    for (const ValueId input : graph_.inputs()) {
      ProtoFields node = begin(graph_.value_name(input), "input", "Placeholder");
      names_[input] = name_;
      add_types(node, {input});
      out_.add(1, node);
    }
    // All names first: a node may read one that comes later.
    std::vector<std::string> names;
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      const Node& node = graph_.node(id);
      const ValueId first = node.outputs.empty() ? kNone : node.outputs[0];
      const std::string named =
          node.name.empty() && first != kNone ? graph_.value_name(first) : node.name;
      names.push_back(unique(named, node.op->full_name()));
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != kNone)
          names_[node.outputs[i]] = i == 0 ? names.back() : cat(names.back(), ":", i);
      }
    }
    for (NodeId id = 0; id < graph_.nodes(); ++id) add(graph_.node(id), names[id], names);
    for (const ValueId output : graph_.outputs()) {
      ProtoFields node = begin(cat("outputs/", graph_.value_name(output)), "output", "Output");
      node.add(kInput, names_[output]);
      add_types(node, {output});
      out_.add(1, node);
    }
    return out_.add(4, ProtoFields().add(1, int64_t{22})).bytes();  // versions: producer
  }

 private:
  // A name that no node has yet; `usual` for a node that has none.
  std::string unique(std::string name, const std::string& usual) {
    while (!name.empty() && !std::isalnum(static_cast<unsigned char>(name.front())))
      name.erase(name.begin());
    if (name.empty()) name = usual;
    for (char& c : name) c = is_of_name(c) ? c : '_';
    std::string made = name;
    for (int i = 1; !taken_.insert(made).second; ++i) made = cat(name, "_", i);
    return made;
  }

  ProtoFields begin(const std::string& name, const std::string& usual, const std::string& op) {
    name_ = unique(name, usual);
    return ProtoFields().add(kName, name_).add(kOp, op);
  }

  void add(const Node& node, const std::string& name, const std::vector<std::string>& names) {
    ProtoFields out;
    out.add(kName, name).add(kOp, node.op->full_name());
    for (const ValueId input : node.inputs) {
      if (input != kNone) out.add(kInput, names_[input]);
    }
    for (const NodeId before : node.after) out.add(kInput, "^" + names[before]);
    if (!node.device.empty()) out.add(kDevice, node.device);
    for (const auto& [key, attr] : node.attrs) {
      if (const ProtoFields value = value_of(attr); !value.empty()) add_attr(out, key, value);
    }
    add_types(out, node.outputs);
    out_.add(1, out);
  }

  // TensorBoard shows the shapes at the edges.
  void add_types(ProtoFields& node, const std::vector<ValueId>& outputs) const {
    ProtoFields shapes;
    for (const ValueId id : outputs) {
      ProtoFields shape;
      if (id == kNone) {
        shape.add(kUnknownRank, int64_t{1});
      } else {
        for (const Dim& dim : graph_.value(id).type.shape.dims()) {
          ProtoFields size;
          size.add(kSize, dim.is_constant() ? dim.factor : int64_t{-1});
          if (!dim.is_constant()) size.add(kSizeName, graph_.dim_text(dim));
          shape.add(kDim, size);
        }
      }
      shapes.add(kShapes, shape);
    }
    if (outputs.empty()) return;
    add_attr(node, "_output_shapes", ProtoFields().add(kList, shapes));
    if (outputs[0] == kNone) return;
    const auto dtype = static_cast<size_t>(graph_.value(outputs[0]).type.dtype);
    if (const int64_t type = kDataTypes[dtype]; type > 0)
      add_attr(node, "dtype", ProtoFields().add(kType, type));
  }

  const Graph& graph_;
  std::vector<std::string> names_;  // by value: "l1/mm", or "l1/split:1"
  std::set<std::string> taken_;
  std::string name_;
  ProtoFields out_;
};

}  // namespace

std::string graph_def(const Graph& graph) { return GraphDefWriter(graph).write(); }

}  // namespace leat
