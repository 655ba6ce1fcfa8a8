// What the files of the layers share: how one is declared, and what its expansion sees.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/op.h"
#include "ops/layers/copy.h"

namespace leat {

// Everything that one layer's expansion needs, and where its nodes go. Errors stick: after the
// first one nothing is added, and status() has it.
class LayerContext {
 public:
  // `training` is where the graph's flag is kept, kNone until it is made.
  LayerContext(GraphCopy& copy, NodeId layer, std::string name, ValueId& training);

  const Attrs& attrs() const { return attrs_; }
  ValueId input() const { return copy_.at(copy_.from().node(layer_).inputs[0]); }
  const ValueType& input_type() const;

  // Adds a node of the layer and returns its first output, called "layer/suffix" unless the suffix
  // is empty.
  ValueId emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
               std::string_view suffix = "");
  ValueId emit_constant(Tensor value, std::string_view suffix = "");
  // A variable "layer/suffix" with its initial value by the initializer; returns the value read.
  struct Weights {
    std::string_view suffix;
    std::vector<int64_t> shape;
    std::string initializer;
    int64_t fan_in = 1, fan_out = 1;  // as Keras counts them: what Glorot and He scale by
    bool trainable = true;
    DType dtype = DType::f32;
  };
  ValueId variable(const Weights& weights);
  // leat.Assign to a variable of this layer, after what reads it.
  void assign(std::string_view suffix, ValueId value);
  // The attribute `activation` applied; `channel_axis` is softmax's.
  ValueId activate(ValueId x, int64_t channel_axis);

  // Output `index` of the node that made `value`, wanted from now on.
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
  bool initial_ = false;  // nodes that are added now are of the init program
  uint32_t randoms_ = 0;
  std::map<std::string, ValueId, std::less<>> resources_;  // by suffix
};

// A layer: its op, and what it becomes. expand returns the value that stands for the layer's
// output.
struct Layer {
  OpDef op;
  ValueId (*expand)(LayerContext&) = nullptr;
};

// Conv2D, Conv2DTranspose; Dense, Embedding; Dropout, BatchNorm, LayerNorm.
std::vector<Layer> convolution_layers();
std::vector<Layer> dense_layers();
std::vector<Layer> normalization_layers();
// All of them.
std::vector<Layer> all_layers();

// Checks what many layers have: activation and the initializers, by name.
Status check_names(const InferContext& ctx);
// A size of a layer's input that weights depend on must be a number.
Result<int64_t> fixed_size(const InferContext& ctx, int axis, std::string_view what);
// The attribute as an int in [least, 2^24].
Result<int64_t> positive(const InferContext& ctx, std::string_view name, int64_t least = 1);

}  // namespace leat
