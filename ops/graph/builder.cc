#include "ops/graph/builder.h"

#include "ops/graph/op.h"

namespace leat {
namespace {

// The names of the layers' attribute `activation`, in the order of the enum.
std::string activation_name(Activation activation) {
  static constexpr const char* kNames[] = {"linear", "relu", "sigmoid", "tanh", "gelu", "softmax"};
  return kNames[static_cast<int>(activation)];
}

}  // namespace

// The graph may hold nodes already: their types must be known before nodes are added after them.
GraphBuilder::GraphBuilder(Graph& graph) : graph_(graph), inference_(graph) {
  note(inference_.run());
}

// Only the first error counts, because those after it may be its consequences.
void GraphBuilder::note(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

// The type of an input is given, so nothing is inferred.
ValueId GraphBuilder::input(std::string name, DType dtype, SymbolicShape shape) {
  return graph_.add_input(std::move(name), {ValueKind::tensor, dtype, std::move(shape)});
}

void GraphBuilder::output(ValueId value, std::string name) {
  if (!status_.ok()) return;
  if (!name.empty()) graph_.set_value_name(value, std::move(name));
  graph_.add_output(value);
}

std::vector<ValueId> GraphBuilder::ops(std::string_view name, std::vector<ValueId> inputs,
                                       Attrs attrs, int outputs) {
  const size_t dot = name.find('.');
  const std::string_view domain = dot == std::string_view::npos ? "" : name.substr(0, dot);
  const std::string_view op = dot == std::string_view::npos ? name : name.substr(dot + 1);
  // After an error nothing is added. The values returned then are 0, so that the caller's next
  // calls have operands; only status() has a meaning then.
  if (status_.ok()) {
    auto id = graph_.add_node(domain, op, std::move(inputs), std::move(attrs), outputs);
    note(id.ok() ? inference_.infer(*id) : id.status());
    if (id.ok()) return graph_.node(*id).outputs;
  }
  return std::vector<ValueId>(static_cast<size_t>(outputs), 0);
}

ValueId GraphBuilder::op(std::string_view name, std::vector<ValueId> inputs, Attrs attrs) {
  return ops(name, std::move(inputs), std::move(attrs), 1)[0];
}

// Without an error, ops() has just added the node as the last one.
NodeId GraphBuilder::effect(std::string_view name, std::vector<ValueId> inputs, Attrs attrs) {
  ops(name, std::move(inputs), std::move(attrs), 0);
  return static_cast<NodeId>(graph_.nodes() - 1);
}

ValueId GraphBuilder::constant(Tensor value) {
  return op("Constant", {}, {{"value", std::move(value)}});
}

ValueId GraphBuilder::named(ValueId value, std::string name) {
  if (status_.ok()) graph_.set_value_name(value, std::move(name));
  return value;
}

ValueId GraphBuilder::conv2d(ValueId x, const Conv2DOptions& options) {
  const ValueId y = op("leat.Conv2D", {x},
                       {{"filters", options.filters},
                        {"kernel", std::vector<int64_t>{options.kernel}},
                        {"strides", std::vector<int64_t>{options.strides}},
                        {"padding", options.padding},
                        {"activation", activation_name(options.activation)},
                        {"use_bias", int64_t{options.use_bias}}});
  return options.name.empty() ? y : named(y, options.name);
}

ValueId GraphBuilder::dense(ValueId x, const DenseOptions& options) {
  const ValueId y = op("leat.Dense", {x},
                       {{"units", options.units},
                        {"activation", activation_name(options.activation)},
                        {"use_bias", int64_t{options.use_bias}}});
  return options.name.empty() ? y : named(y, options.name);
}

ValueId GraphBuilder::dropout(ValueId x, double rate) {
  return op("leat.Dropout", {x}, {{"rate", rate}});
}

}  // namespace leat
