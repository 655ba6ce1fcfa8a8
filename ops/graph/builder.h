// GraphBuilder writes a graph in the order in which people write a model: every call adds a node,
// infers its types, and returns its output. The first error sticks; check status() at the end. The
// graph may have layers; expand_layers() replaces them before it runs.
//
//   GraphBuilder g(graph);
//   ValueId x = g.input("image", DType::f32, {g.batch("N"), Dim::of(1), Dim::of(28), Dim::of(28)});
//   x = g.conv2d(x, {.filters = 32, .kernel = 3, .activation = Activation::relu});
//   x = g.op("MaxPool", {x}, {{"kernel_shape", std::vector<int64_t>{2, 2}}, ...});
//   g.output(g.dense(g.op("Flatten", {x}), {.units = 10}), "logits");
//   LEAT_RETURN_IF_ERROR(g.status());
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/validate.h"

namespace leat {

// The activation of a layer; softmax is over the channels or units. The attribute of the layers
// also knows "leaky_relu", which op() can write.
enum class Activation { linear, relu, sigmoid, tanh, gelu, softmax };

// The attributes of leat.Conv2D, over [N, C, H, W]. Kernel and strides are the same for both axes;
// op("leat.Conv2D", ...) takes a pair of each.
struct Conv2DOptions {
  // The channels of the output; it must be set.
  int64_t filters = 0;
  int64_t kernel = 3;
  int64_t strides = 1;
  // "same" or "valid", as in Keras.
  std::string padding = "same";
  Activation activation = Activation::linear;
  bool use_bias = true;
  // The name of the output, which is the prefix of the variables' names ("c1/kernel"). Without one,
  // layer_name() makes it up.
  std::string name = {};
};
// The attributes of leat.Dense, over the last axis.
struct DenseOptions {
  // The size of the output's last axis; it must be set.
  int64_t units = 0;
  Activation activation = Activation::linear;
  bool use_bias = true;
  std::string name = {};
};

// Threads: one. The graph outlives the builder; it may hold nodes already. A call after an error
// adds no node. A node whose inference failed stays in the graph, without types: such a graph is of
// no further use.
class GraphBuilder {
 public:
  // Infers the nodes that the graph has; status() has the error if they are not valid.
  explicit GraphBuilder(Graph& graph);

  // The first error of any call; the calls after it return values without meaning. invalid_argument
  // for an unknown op (with the nearest known one), and for operands or attributes that its
  // inference refuses.
  const Status& status() const { return status_; }
  Graph& graph() { return graph_; }
  Inference& inference() { return inference_; }

  // A symbolic size: every call with the same name returns the same one.
  Dim batch(std::string_view name) { return Dim::of_symbol(graph_.symbol(name)); }
  ValueId input(std::string name, DType dtype, SymbolicShape shape);
  // Makes the value the next output of the graph, and renames it if `name` is not empty.
  void output(ValueId value, std::string name = {});

  // Adds a node of any op, by its full name ("Relu", "leat.Read"), and returns output 0. kNone
  // among the inputs is an optional input that is absent.
  ValueId op(std::string_view name, std::vector<ValueId> inputs = {}, Attrs attrs = {});
  // The same for a node with `outputs` outputs.
  std::vector<ValueId> ops(std::string_view name, std::vector<ValueId> inputs, Attrs attrs,
                           int outputs);
  // Adds a node without outputs.
  NodeId effect(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {});
  // The graph shares the memory of `value`, which must not change any more.
  ValueId constant(Tensor value);
  ValueId scalar(DType dtype, double value) { return constant(Tensor::scalar_of(dtype, value)); }
  // Names a value and returns it.
  ValueId named(ValueId value, std::string name);

  // Layers, as the text form has them (docs/layers.md): each stands for the nodes and variables
  // that expand_layers() makes of it.
  ValueId conv2d(ValueId x, const Conv2DOptions& options);
  ValueId dense(ValueId x, const DenseOptions& options);
  ValueId dropout(ValueId x, double rate);

 private:
  void note(Status status);
  Graph& graph_;
  Inference inference_;
  Status status_;
};

}  // namespace leat
