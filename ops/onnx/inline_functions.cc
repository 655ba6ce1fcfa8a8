#include "ops/onnx/inline_functions.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "devices/base/text.h"
#include "onnx.pb.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

using namespace onnx_wire;

using FunctionKey = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

std::string plain_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

template <typename Proto>
FunctionKey key_of(const Proto& proto, const std::string& name) {
  return {plain_domain(proto.domain()), name, proto.overload()};
}

// The values and attributes of one call.
struct Call {
  std::string prefix;                                       // of the names of inner values
  std::map<std::string, std::string> values;                // actual names by formal ones
  std::map<std::string, const AttributeProto*> attributes;  // actual ones, and defaults

  std::string value(const std::string& name) const {
    if (name.empty()) return name;
    const auto found = values.find(name);
    return found == values.end() ? prefix + name : found->second;
  }
};

class Inliner {
 public:
  explicit Inliner(const ModelProto& model) {
    for (const FunctionProto& function : model.functions())
      functions_.emplace(key_of(function, function.name()), &function);
  }

  Status graph(GraphProto& graph, int depth) {
    google::protobuf::RepeatedPtrField<NodeProto> out;
    for (NodeProto& node : *graph.mutable_node()) LEAT_RETURN_IF_ERROR(add(node, depth, out));
    graph.mutable_node()->Swap(&out);
    return {};
  }

 private:
  using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;

  // Appends the node, or the body of the function that it calls.
  Status add(NodeProto& node, int depth, Nodes& out) {
    if (depth > limits::kNesting)
      return invalid_argument(cat("expected functions nested at most ", limits::kNesting, " deep"));
    const auto function = functions_.find(key_of(node, node.op_type()));
    if (function != functions_.end()) return expand(node, *function->second, depth, out);
    for (AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) LEAT_RETURN_IF_ERROR(graph(*attribute.mutable_g(), depth + 1));
    }
    if (++nodes_ > limits::kNodes)
      return invalid_argument(cat("expected at most ", limits::kNodes,
                                  " nodes with the functions' ", "bodies in place of their calls"));
    *out.Add() = std::move(node);
    return {};
  }

  Status expand(const NodeProto& node, const FunctionProto& function, int depth, Nodes& out) {
    for (const FunctionProto* outer : open_) {
      if (outer == &function)
        return invalid_argument(cat("function '", function.name(), "': it calls itself"));
    }
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
      return invalid_argument(cat("function '", function.name(), "': expected at most ",
                                  function.input_size(), " inputs and ", function.output_size(),
                                  " outputs, received ", node.input_size(), " and ",
                                  node.output_size()));
    }
    open_.push_back(&function);
    const Call call = call_of(node, function);
    for (const NodeProto& inner : function.node()) {
      NodeProto copy = inner;
      rename(copy, call);
      if (!node.name().empty()) copy.set_name(cat(node.name(), "/", inner.name()));
      if (copy.metadata_props().empty()) *copy.mutable_metadata_props() = node.metadata_props();
      LEAT_RETURN_IF_ERROR(add(copy, depth + 1, out));
    }
    pass_inputs_on(node, function, out);
    open_.pop_back();
    return {};
  }

  Call call_of(const NodeProto& node, const FunctionProto& function) {
    Call call{cat("%function", calls_++, "/"), {}, {}};
    for (int i = 0; i < function.output_size() && i < node.output_size(); ++i) {
      // An output that the caller leaves out keeps an inner name.
      if (!node.output(i).empty()) call.values[function.output(i)] = node.output(i);
    }
    for (int i = 0; i < function.input_size(); ++i)
      call.values[function.input(i)] = i < node.input_size() ? node.input(i) : "";
    for (const AttributeProto& attribute : function.attribute_proto())
      call.attributes[attribute.name()] = &attribute;
    for (const AttributeProto& attribute : node.attribute())
      call.attributes[attribute.name()] = &attribute;
    return call;
  }

  // An output of the function that is one of its inputs has no node of its own.
  void pass_inputs_on(const NodeProto& node, const FunctionProto& function, Nodes& out) const {
    for (int o = 0; o < node.output_size(); ++o) {
      for (int i = 0; i < node.input_size(); ++i) {
        if (node.output(o).empty() || function.output(o) != function.input(i)) continue;
        NodeProto* identity = out.Add();
        identity->set_op_type("Identity");
        identity->add_input(node.input(i));
        identity->add_output(node.output(o));
      }
    }
  }

  // Gives the values and attributes of a body's node those of the call.
  static void rename(NodeProto& node, const Call& call) {
    for (std::string& input : *node.mutable_input()) input = call.value(input);
    for (std::string& output : *node.mutable_output()) output = call.value(output);
    google::protobuf::RepeatedPtrField<AttributeProto> attributes;
    for (AttributeProto& attribute : *node.mutable_attribute()) {
      if (!attribute.ref_attr_name().empty()) {
        const auto actual = call.attributes.find(attribute.ref_attr_name());
        if (actual == call.attributes.end()) continue;  // the op's own default
        AttributeProto* copy = attributes.Add();
        *copy = *actual->second;
        copy->set_name(attribute.name());
        continue;
      }
      if (attribute.has_g()) rename(*attribute.mutable_g(), call);
      *attributes.Add() = std::move(attribute);
    }
    node.mutable_attribute()->Swap(&attributes);
  }

  static void rename(GraphProto& graph, const Call& call) {
    for (ValueInfoProto& value : *graph.mutable_input()) value.set_name(call.value(value.name()));
    for (ValueInfoProto& value : *graph.mutable_output()) value.set_name(call.value(value.name()));
    for (ValueInfoProto& value : *graph.mutable_value_info())
      value.set_name(call.value(value.name()));
    for (TensorProto& tensor : *graph.mutable_initializer())
      tensor.set_name(call.value(tensor.name()));
    for (NodeProto& node : *graph.mutable_node()) rename(node, call);
  }

  std::map<FunctionKey, const FunctionProto*> functions_;
  std::vector<const FunctionProto*> open_;  // the calls that are being expanded, outermost first
  size_t nodes_ = 0, calls_ = 0;
};

}  // namespace

Status inline_functions(ModelProto& model) {
  if (model.functions().empty()) return {};
  Inliner inliner(model);
  LEAT_RETURN_IF_ERROR(inliner.graph(*model.mutable_graph(), 0));
  model.clear_functions();
  return {};
}

}  // namespace leat
