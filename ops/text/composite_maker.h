// Makes the nodes that a composite op stands for (ops/text/composites.h). Private to this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "devices/base/status.h"
#include "devices/base/text.h"
#include "ops/text/draft.h"

namespace leat {

// Reads the operands and attributes of one node, and adds nodes in its place. The first error
// stays, and what is made after it means nothing.
class CompositeMaker {
 public:
  using Attributes = std::map<std::string, DraftAttr, std::less<>>;

  // The new nodes go to the end of `out`; `made` counts them over all composites of a graph.
  CompositeMaker(const DraftNode& node, size_t& made, std::vector<DraftNode>& out);

  const Status& status() const { return status_; }
  // The node as messages name it: "PRelu 'act'".
  const std::string& label() const { return label_; }
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  bool has(int i) const {
    asked_ = std::max(asked_, i + 1);
    return i < inputs() && !node_.inputs[static_cast<size_t>(i)].name.empty();
  }
  bool wants(int output) const {
    const auto i = static_cast<size_t>(output);
    return i < node_.outputs.size() && !node_.outputs[i].name.empty();
  }

  // Input i; an error if it is absent.
  DraftName in(int i);
  // Attributes of the node, or their defaults.
  double number(std::string_view name, double fallback);
  int64_t integer(std::string_view name, int64_t fallback);
  std::string text(std::string_view name, std::string fallback);
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> fallback);
  std::vector<double> numbers(std::string_view name);
  std::vector<std::string> texts(std::string_view name);
  // An invalid tensor without the attribute.
  Tensor tensor(std::string_view name);
  bool has_attribute(std::string_view name) const { return node_.attrs.contains(name); }

  // Adds a node with one output, or with several, and returns them. `op` is "Relu" or
  // "leat.Recurrent".
  DraftName op(std::string_view op, std::vector<DraftName> inputs, Attributes attrs = {});
  std::vector<DraftName> ops(std::string_view op, std::vector<DraftName> inputs, Attributes attrs,
                             int outputs);
  // Adds the nodes of the attribute that is a region with one output, whose inputs are these
  // values, and returns that output.
  DraftName inlined(std::string_view name, const std::vector<DraftName>& inputs);
  // The first output of the newest node. REQUIRES: there is one.
  const DraftName& last() const { return out_.back().outputs[0]; }
  DraftName constant(Tensor value) {
    return op("Constant", {}, {{"value", Attr(std::move(value))}});
  }
  DraftName ints(const std::vector<int64_t>& values) {
    return constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values));
  }
  // `shape` has every size, as Shape gives them: a 0 is an axis without elements.
  DraftName reshaped(const DraftName& x, const DraftName& shape) {
    return op("Reshape", {x, shape}, {{"allowzero", Attr(int64_t{1})}});
  }
  DraftName int_scalar(int64_t value) { return constant(Tensor::scalar<int64_t>(value)); }
  // Puts lists of sizes one behind the other.
  DraftName concat(std::vector<DraftName> lists) {
    return op("Concat", std::move(lists), {{"axis", Attr(int64_t{0})}});
  }
  // A scalar of the element type of `like`. It is a double before, so that no bit is lost.
  DraftName scalar(double value, const DraftName& like) {
    return op("CastLike", {constant(Tensor::scalar<double>(value)), like});
  }

  // Makes `value` output i of the node. A node whose outputs are not set has one, that of the last
  // part.
  void set_output(int i, const DraftName& value);
  // Gives the parts the names of the node's outputs. An error for attributes that nothing has read,
  // and for operands behind all that were asked for.
  void finish();
  void fail(std::string message) {
    if (status_.ok()) status_ = invalid_argument(std::move(message));
  }

 private:
  const Attr* find(std::string_view name);
  template <typename T>
  T get(std::string_view name, T fallback, std::string_view expected);

  const DraftNode& node_;
  const std::string label_;  // "PRelu 'act'"
  mutable int asked_ = 0;    // one more than the largest index of an operand that was asked for
  size_t& made_;
  std::vector<DraftNode>& out_;
  std::map<std::string, bool, std::less<>> known_;
  bool sets_outputs_ = false;
  Status status_;
};

void make_einsum(CompositeMaker& m);
void make_compress(CompositeMaker& m);
void make_flex_attention(CompositeMaker& m);
// Of ai.onnx.preview.training: steps of optimizers.
void make_adagrad(CompositeMaker& m);
void make_adam(CompositeMaker& m);
void make_momentum(CompositeMaker& m);
// Of ai.onnx.ml.
void make_array_feature_extractor(CompositeMaker& m);
void make_binarizer(CompositeMaker& m);
void make_tree_ensemble(CompositeMaker& m);
// ONNX's recurrent ops.
void make_lstm(CompositeMaker& m);
void make_gru(CompositeMaker& m);
void make_rnn(CompositeMaker& m);
void make_rotary_embedding(CompositeMaker& m);
void make_affine_grid(CompositeMaker& m);
// Windows, and sums over windows.
void make_hann_window(CompositeMaker& m);
void make_hamming_window(CompositeMaker& m);
void make_blackman_window(CompositeMaker& m);
void make_eye_like(CompositeMaker& m);
void make_lrn(CompositeMaker& m);
void make_lp_pool(CompositeMaker& m);
void make_col2im(CompositeMaker& m);
void make_global_lp_pool(CompositeMaker& m);
void make_reverse_sequence(CompositeMaker& m);
void make_center_crop_pad(CompositeMaker& m);
void make_max_unpool(CompositeMaker& m);
void make_deform_conv(CompositeMaker& m);
void make_causal_conv(CompositeMaker& m);
void make_stft(CompositeMaker& m);
void make_mel_weight_matrix(CompositeMaker& m);
// Quantized values.
void make_quantize_linear(CompositeMaker& m);
void make_dequantize_linear(CompositeMaker& m);
void make_dynamic_quantize_linear(CompositeMaker& m);
void make_mat_mul_integer(CompositeMaker& m);
void make_conv_integer(CompositeMaker& m);
void make_q_linear_mat_mul(CompositeMaker& m);
void make_q_linear_conv(CompositeMaker& m);

}  // namespace leat
