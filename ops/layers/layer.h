// The interface of a layer: its declaration, and the context of its expansion.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/op.h"
#include "ops/layers/copy.h"

namespace leat {

// The inputs of one layer's expansion, and the graph that its nodes go to. Errors stick: after the
// first one no nodes are added, and status() returns it.
class LayerContext {
 public:
  // `training` is the graph's training flag, kNone until it exists.
  LayerContext(GraphCopy& copy, NodeId layer, std::string name, ValueId& training);

  const Attrs& attrs() const { return attrs_; }
  ValueId input() const { return copy_.at(copy_.from().node(layer_).inputs[0]); }
  const ValueType& input_type() const;

  // Adds a node of the layer and returns its first output, which is named "layer/suffix" unless the
  // suffix is empty.
  ValueId emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
               std::string_view suffix = "");
  ValueId emit_constant(Tensor value, std::string_view suffix = "");
  // Adds a variable "layer/suffix" with an initial value from the initializer, and returns the
  // value read.
  struct Weights {
    std::string_view suffix;
    std::vector<int64_t> shape;
    std::string initializer;
    int64_t fan_in = 1, fan_out = 1;  // as Keras counts them, for the scales of Glorot and He
    bool trainable = true;
    DType dtype = DType::f32;
  };
  ValueId variable(const Weights& weights);
  // Adds a leat.Assign to a variable of this layer, after the nodes that read it.
  void assign(std::string_view suffix, ValueId value);
  // Applies the attribute `activation`; `channel_axis` is the axis of softmax.
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

// A layer: its op and its expansion. expand returns the value that replaces the layer's output.
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
Status check_names(const InferContext& ctx);
// Returns a size of the layer's input; weights depend on it, so that it must be a number.
Result<int64_t> fixed_size(const InferContext& ctx, int axis, std::string_view what);
// Returns the attribute, checked to be in [least, 2^24].
Result<int64_t> positive(const InferContext& ctx, std::string_view name, int64_t least = 1);

}  // namespace leat
