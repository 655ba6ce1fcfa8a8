// GraphBuilder writes a graph in the order in which people write a model: every call adds a node,
// infers its types, and returns its output. The first error sticks; check status() at the end.
//
//   GraphBuilder g(graph);
//   ValueId x = g.input("image", DType::f32, {g.batch("N"), Dim::of(1), Dim::of(28), Dim::of(28)});
//   x = g.conv2d(x, {.filters = 32, .kernel = 3, .activation = Activation::relu});
//   x = g.op("MaxPool", {x}, {{"kernel_shape", std::vector<int64_t>{2, 2}}, ...});
//   g.output(g.dense(g.op("Flatten", {x}), {.units = 10}), "logits");
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/validate.h"

namespace leat {

enum class Activation { linear, relu, sigmoid, tanh, gelu, softmax };

struct Conv2DOptions {
  int64_t filters = 0;
  int64_t kernel = 3;
  int64_t strides = 1;
  std::string padding = "same";
  Activation activation = Activation::linear;
  bool use_bias = true;
  std::string name = {};
};
struct DenseOptions {
  int64_t units = 0;
  Activation activation = Activation::linear;
  bool use_bias = true;
  std::string name = {};
};

// Threads: one. The graph outlives the builder; it may hold nodes already.
class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph);

  // The first error of any call; the calls after it return values without meaning.
  const Status& status() const { return status_; }
  Graph& graph() { return graph_; }
  Inference& inference() { return inference_; }

  // A symbolic size: every call with the same name returns the same one.
  Dim batch(std::string_view name) { return Dim::of_symbol(graph_.symbol(name)); }
  ValueId input(std::string name, DType dtype, SymbolicShape shape);
  void output(ValueId value, std::string name = {});

  // Adds a node of any op, by its full name ("Relu", "leat.Read").
  ValueId op(std::string_view name, std::vector<ValueId> inputs = {}, Attrs attrs = {});
  std::vector<ValueId> ops(std::string_view name, std::vector<ValueId> inputs, Attrs attrs,
                           int outputs);
  // Adds a node without outputs.
  NodeId effect(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {});
  ValueId constant(Tensor value);
  ValueId scalar(DType dtype, double value) { return constant(Tensor::scalar_of(dtype, value)); }
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
