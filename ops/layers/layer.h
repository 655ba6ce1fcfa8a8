// The interface of a layer: its declaration, and the context of its expansion. Private to
// ops/layers; layers.h is for everyone else.
//
//   ValueId expand_scale(LayerContext& ctx) {    // y = activation(x * w)
//     const ValueId w = ctx.variable({.suffix = "scale", .shape = {1}, .initializer = "ones"});
//     return ctx.activate(ctx.emit("Mul", {ctx.input(), w}), 1);
//   }
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/op.h"
#include "ops/layers/copy.h"

namespace leat {

// The inputs of one layer's expansion, and the graph that its nodes go to. It lives during the
// expansion of that layer. Errors stick: after the first one no nodes are added, calls return
// kNone, and status() returns it; kNone is accepted as an input then. Types are not inferred here:
// the expanded graph is validated as a whole. Threads: one.
class LayerContext {
 public:
  // `name` is that of layer_name(). `training` is the graph's training flag, kNone until it exists;
  // the contexts of all layers of a graph share it.
  LayerContext(GraphCopy& copy, NodeId layer, std::string name, ValueId& training);

  // The layer's attributes, with defaults.
  const Attrs& attrs() const { return attrs_; }
  // The layer's input 0 as a value of the new graph, and its inferred type.
  ValueId input() const { return copy_.at(copy_.from().node(layer_).inputs[0]); }
  const ValueType& input_type() const;

  // Adds a node of the layer and returns its first output, which is named "layer/suffix" unless the
  // suffix is empty. `op` is an ONNX op, or begins with "leat.". The node gets the layer's device
  // and control edges; a random node is keyed by the layer's source, so that its numbers do not
  // depend on the rest of the graph.
  ValueId emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
               std::string_view suffix = "");
  ValueId emit_constant(Tensor value, std::string_view suffix = "");
  // A variable of a layer. The initializers are those of check_names(): zeros, ones, and Keras'
  // glorot_, he_ and plain uniform and normal, the plain ones with a scale of 0.05. Normal ones are
  // not truncated.
  struct Weights {
    std::string_view suffix;
    std::vector<int64_t> shape;
    std::string initializer;
    int64_t fan_in = 1, fan_out = 1;  // as Keras counts them, for the scales of Glorot and He
    bool trainable = true;
    DType dtype = DType::f32;
  };
  // Adds a variable "layer/suffix" with an initial value from the initializer, and returns the
  // value read. The nodes of the initial value run once, before the first step, and have no control
  // edges.
  ValueId variable(const Weights& weights);
  // Adds a leat.Assign to a variable of this layer. A suffix that names none of its variables is
  // ignored.
  void assign(std::string_view suffix, ValueId value);
  // Applies the attribute `activation`, "linear" if it is absent, which returns x itself;
  // `channel_axis` is the axis of softmax. leaky_relu has alpha 0.2.
  ValueId activate(ValueId x, int64_t channel_axis);

  // Makes output `index` of the node that made `value` a wanted one, and returns it.
  ValueId extra_output(ValueId value, int index, std::string_view suffix);
  // The constant true that every Dropout of the graph shares.
  ValueId training();

  const Status& status() const { return status_; }

 private:
  NodeId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs);
  void initialize(ValueId resource, const Weights& weights);
  ValueId initial_value(const Weights& weights);

  GraphCopy& copy_;
  const NodeId layer_;
  const std::string name_;
  ValueId& training_;
  Attrs attrs_;
  Status status_;
  bool initial_ = false;  // true: new nodes belong to the init program
  uint32_t randoms_ = 0;
  std::map<std::string, ValueId, std::less<>> resources_;  // by suffix
};

// A layer: its op and its expansion. expand returns the value that replaces the layer's output; a
// node of the layer must make that value, since the node takes the layer's name. The op has a
// signature and inference, and neither kernels nor a gradient.
struct Layer {
  OpDef op;
  ValueId (*expand)(LayerContext&) = nullptr;
};

// Conv2D, Conv2DTranspose; Dense, Embedding; Dropout, BatchNorm, LayerNorm.
std::vector<Layer> convolution_layers();
std::vector<Layer> dense_layers();
std::vector<Layer> normalization_layers();
// The layers of all files.
std::vector<Layer> all_layers();

// Checks the attributes that many layers have: the names of the activation and the initializers.
// invalid_argument suggests the nearest known name; an absent attribute passes.
Status check_names(const InferContext& ctx);
// Returns a size of the layer's input; weights depend on it, so that it must be a number above 0.
// Else invalid_argument; `what` names the size in the message ("channels"). REQUIRES: the input has
// that axis.
Result<int64_t> fixed_size(const InferContext& ctx, int axis, std::string_view what);
// Returns the int attribute, checked to be in [least, 2^24]; else invalid_argument.
Result<int64_t> positive(const InferContext& ctx, std::string_view name, int64_t least = 1);

}  // namespace leat
