#include "ops/text/composites.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "devices/base/text.h"
#include "ops/text/composite_maker.h"

namespace leat {
namespace {

using Maker = CompositeMaker;
using Attributes = CompositeMaker::Attributes;

DraftName shape_of(Maker& m, const DraftName& x) { return m.op("Shape", {x}); }

DraftName mean(Maker& m, const DraftName& x, const std::vector<int64_t>& axes) {
  return m.op("ReduceMean", {x, m.ints(axes)}, {{"keepdims", Attr(int64_t{1})}});
}

// (x - mean) / sqrt(variance + epsilon), over the axes, with the variance of the population.
DraftName normalized(Maker& m, const DraftName& x, const std::vector<int64_t>& axes,
                     double epsilon) {
  const DraftName centered = m.op("Sub", {x, mean(m, x, axes)});
  const DraftName variance = mean(m, m.op("Mul", {centered, centered}), axes);
  return m.op("Div", {centered, m.op("Sqrt", {m.op("Add", {variance, m.scalar(epsilon, x)})})});
}

// x * scale + bias, of a value [N, C, ...] brought to [N, C, S] and vectors of C.
DraftName scale_channels(Maker& m, const DraftName& x, const DraftName& scale,
                         const DraftName& bias) {
  const DraftName column = m.ints({1});
  return m.op("Add", {m.op("Mul", {x, m.op("Unsqueeze", {scale, column})}),
                      m.op("Unsqueeze", {bias, column})});
}

// --- activations -------------------------------------------------------------------------------

void hard_swish(Maker& m) {
  const DraftName x = m.in(0);
  m.op("Mul", {x, m.op("HardSigmoid", {x}, {{"alpha", Attr(1.0 / 6)}, {"beta", Attr(0.5)}})});
}

void swish(Maker& m) {
  const DraftName x = m.in(0);
  const double alpha = m.number("alpha", 1);
  const DraftName scaled = alpha == 1 ? x : m.op("Mul", {x, m.scalar(alpha, x)});
  m.op("Mul", {x, m.op("Sigmoid", {scaled})});
}

// The gate is input 0.
void swi_glu(Maker& m) {
  const DraftName gate = m.in(0);
  const double alpha = m.number("alpha", 1);
  const DraftName scaled = alpha == 1 ? gate : m.op("Mul", {gate, m.scalar(alpha, gate)});
  m.op("Mul", {m.op("Mul", {gate, m.op("Sigmoid", {scaled})}), m.in(1)});
}

void mish(Maker& m) {
  const DraftName x = m.in(0);
  m.op("Mul", {x, m.op("Tanh", {m.op("Softplus", {x})})});
}

void p_relu(Maker& m) {
  const DraftName x = m.in(0);
  const DraftName negative = m.op("Less", {x, m.scalar(0, x)});
  const DraftName scaled = m.op("Mul", {x, m.in(1)});
  m.op("Where", {negative, scaled, x});
}

void selu(Maker& m) {
  const DraftName x = m.in(0);
  const double alpha = m.number("alpha", 1.67326319217681884765625);
  const double gamma = m.number("gamma", 1.05070102214813232421875);
  const DraftName elu = m.op("Elu", {x}, {{"alpha", Attr(alpha)}});
  m.op("Mul", {elu, m.scalar(gamma, x)});
}

void celu(Maker& m) {
  const DraftName x = m.in(0);
  const double alpha = m.number("alpha", 1);
  const DraftName scale = m.scalar(alpha, x);
  m.op("Mul", {m.op("Elu", {m.op("Div", {x, scale})}, {{"alpha", Attr(1.0)}}), scale});
}

void thresholded_relu(Maker& m) {
  const DraftName x = m.in(0);
  const DraftName above = m.op("Greater", {x, m.scalar(m.number("alpha", 1), x)});
  const DraftName zero = m.scalar(0, x);
  m.op("Where", {above, x, zero});
}

void softsign(Maker& m) {
  const DraftName x = m.in(0);
  m.op("Div", {x, m.op("Add", {m.scalar(1, x), m.op("Abs", {x})})});
}

void shrink(Maker& m) {
  const DraftName x = m.in(0);
  const double lambd = m.number("lambd", 0.5), bias = m.number("bias", 0);
  const DraftName below = m.op("Less", {x, m.scalar(-lambd, x)});
  const DraftName above = m.op("Greater", {x, m.scalar(lambd, x)});
  const DraftName raised = m.op("Add", {x, m.scalar(bias, x)});
  const DraftName lowered = m.op("Sub", {x, m.scalar(bias, x)});
  const DraftName zero = m.scalar(0, x);
  m.op("Where", {below, raised, m.op("Where", {above, lowered, zero})});
}

// 1 at the first largest element along the axis, else 0.
void hardmax(Maker& m) {
  const DraftName x = m.in(0);
  const int64_t axis = m.integer("axis", -1);
  const DraftName largest =
      m.op("ArgMax", {x}, {{"axis", Attr(axis)}, {"keepdims", Attr(int64_t{0})}});
  const DraftName depth =
      m.op("Gather", {shape_of(m, x), m.constant(Tensor::scalar<int64_t>(axis))});
  const DraftName values = m.op("CastLike", {m.constant(Tensor::of<double>({2}, {0.0, 1.0})), x});
  m.op("OneHot", {largest, depth, values}, {{"axis", Attr(axis)}});
}

// --- sums --------------------------------------------------------------------------------------

void mean_of_inputs(Maker& m) {
  std::vector<DraftName> inputs;
  for (int i = 0; i < std::max(1, m.inputs()); ++i) inputs.push_back(m.in(i));
  const DraftName all = m.op("Sum", inputs);
  m.op("Div", {all, m.scalar(m.inputs(), all)});
}

// The operands and attributes of a reduction like the composite's own.
std::pair<std::vector<DraftName>, Attributes> reduction(Maker& m, const DraftName& x,
                                                        int64_t keepdims) {
  std::vector<DraftName> inputs{x};
  if (m.has(1)) inputs.push_back(m.in(1));
  return {inputs,
          {{"keepdims", Attr(keepdims)},
           {"noop_with_empty_axes", Attr(m.integer("noop_with_empty_axes", 0))}}};
}

void reduce_log_sum(Maker& m) {
  const auto [inputs, attrs] = reduction(m, m.in(0), m.integer("keepdims", 1));
  m.op("Log", {m.op("ReduceSum", inputs, attrs)});
}

// The largest element is subtracted first, so that no exponential overflows.
void reduce_log_sum_exp(Maker& m) {
  const DraftName x = m.in(0);
  const int64_t keepdims = m.integer("keepdims", 1);
  const auto [kept_inputs, kept_attrs] = reduction(m, x, 1);
  const DraftName largest = m.op("ReduceMax", kept_inputs, kept_attrs);
  const auto [inputs, attrs] = reduction(m, m.op("Exp", {m.op("Sub", {x, largest})}), keepdims);
  const DraftName log = m.op("Log", {m.op("ReduceSum", inputs, attrs)});
  const auto [largest_inputs, largest_attrs] = reduction(m, x, keepdims);
  m.op("Add", {log, m.op("ReduceMax", largest_inputs, largest_attrs)});
}

// --- normalizations ----------------------------------------------------------------------------

void mean_variance_normalization(Maker& m) {
  const DraftName x = m.in(0);
  const std::vector<int64_t> axes = m.integers("axes", {0, 2, 3});
  const DraftName centered = m.op("Sub", {x, mean(m, x, axes)});
  const DraftName deviation = m.op("Sqrt", {mean(m, m.op("Mul", {centered, centered}), axes)});
  m.op("Div", {centered, m.op("Add", {deviation, m.scalar(1e-9, x)})});
}

void lp_normalization(Maker& m) {
  const DraftName x = m.in(0);
  const int64_t p = m.integer("p", 2);
  if (p != 1 && p != 2) return m.fail(cat("p: expected 1 or 2, received ", p));
  const DraftName norm =
      m.op(p == 1 ? "ReduceL1" : "ReduceL2", {x, m.ints({m.integer("axis", -1)})},
           {{"keepdims", Attr(int64_t{1})}});
  // A norm of 0 means that x is 0, too.
  const DraftName zero = m.scalar(0, x), one = m.scalar(1, x);
  m.op("Div", {x, m.op("Where", {m.op("Equal", {norm, zero}), one, norm})});
}

void instance_normalization(Maker& m) {
  const DraftName x = m.in(0);
  const DraftName flat = m.op("Reshape", {x, m.ints({0, 0, -1})});
  const DraftName y = normalized(m, flat, {2}, m.number("epsilon", 1e-5));
  m.reshaped(scale_channels(m, y, m.in(1), m.in(2)), shape_of(m, x));
}

// Scale and bias are of the channels; before opset 21 they were of the groups (`per_group`, which
// the importer sets).
void group_normalization(Maker& m) {
  const DraftName x = m.in(0), shape = shape_of(m, x);
  const int64_t groups = m.integer("num_groups", 0);
  m.integer("stash_type", 1);
  if (groups < 1) return m.fail(cat("num_groups: expected at least 1, received ", groups));
  const DraftName grouped = m.op("Reshape", {x, m.ints({0, groups, -1})});
  const DraftName y = normalized(m, grouped, {2}, m.number("epsilon", 1e-5));
  if (m.integer("per_group", 0) != 0) {
    m.reshaped(scale_channels(m, y, m.in(1), m.in(2)), shape);
    return;
  }
  const DraftName channels = m.op("Reshape", {m.reshaped(y, shape), m.ints({0, 0, -1})});
  m.reshaped(scale_channels(m, channels, m.in(1), m.in(2)), shape);
}

// x / sqrt(mean of squares + epsilon) * scale, over the axes from `axis` on.
void rms_normalization(Maker& m) {
  const DraftName x = m.in(0);
  m.integer("stash_type", 1);
  const DraftName flat = m.op("Flatten", {x}, {{"axis", Attr(m.integer("axis", -1))}});
  const DraftName squares = mean(m, m.op("Mul", {flat, flat}), {1});
  const DraftName root =
      m.op("Sqrt", {m.op("Add", {squares, m.scalar(m.number("epsilon", 1e-5), x)})});
  const DraftName y = m.reshaped(m.op("Div", {flat, root}), shape_of(m, x));
  m.op("Mul", {y, m.in(1)});
}

// --- layouts -----------------------------------------------------------------------------------

// The sizes of the image of x, [h, w], times a pair of factors.
DraftName image_size(Maker& m, const DraftName& x) {
  return m.op("Slice", {shape_of(m, x), m.ints({2}), m.ints({4})});
}

// Channels become blocks of pixels: [N, C, h, w] to [N, C / b^2, h b, w b].
void depth_to_space(Maker& m) {
  const DraftName x = m.in(0);
  const int64_t b = m.integer("blocksize", 0);
  const std::string mode = m.text("mode", "DCR");
  if (b < 1) return m.fail(cat("blocksize: expected at least 1, received ", b));
  if (mode != "DCR" && mode != "CRD")
    return m.fail(cat("mode: expected 'DCR' or 'CRD', received '", mode, "'"));
  const bool dcr = mode == "DCR";
  const DraftName image = image_size(m, x);
  const DraftName apart =
      m.op("Reshape", {x, m.concat({m.ints(dcr ? std::vector<int64_t>{0, b, b, -1}
                                               : std::vector<int64_t>{0, -1, b, b}),
                                    image})});
  const std::vector<int64_t> perm =
      dcr ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3};
  const DraftName turned = m.op("Transpose", {apart}, {{"perm", Attr(perm)}});
  m.op("Reshape", {turned, m.concat({m.ints({0, -1}), m.op("Mul", {image, m.ints({b, b})})})});
}

// Blocks of pixels become channels: [N, C, H, W] to [N, C b^2, H / b, W / b].
void space_to_depth(Maker& m) {
  const DraftName x = m.in(0);
  const int64_t b = m.integer("blocksize", 0);
  const std::string mode = m.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return m.fail(cat("mode: expected 'DCR' or 'CRD', received '", mode, "'"));
  if (b < 1) return m.fail(cat("blocksize: expected at least 1, received ", b));
  const DraftName image = m.op("Div", {image_size(m, x), m.ints({b, b})});
  const DraftName h = m.op("Slice", {image, m.ints({0}), m.ints({1})});
  const DraftName w = m.op("Slice", {image, m.ints({1}), m.ints({2})});
  const DraftName apart =
      m.op("Reshape", {x, m.concat({m.ints({0, -1}), h, m.ints({b}), w, m.ints({b})})});
  const std::vector<int64_t> perm = mode == "DCR" ? std::vector<int64_t>{0, 3, 5, 1, 2, 4}
                                                  : std::vector<int64_t>{0, 1, 3, 5, 2, 4};
  const DraftName turned = m.op("Transpose", {apart}, {{"perm", Attr(perm)}});
  m.op("Reshape", {turned, m.concat({m.ints({0, -1}), image})});
}

// A composite, and the opset version of the op that it follows.
struct Composite {
  int since;
  void (*make)(Maker&);
};

const std::pair<const char*, Composite> kComposites[] = {
    {"AffineGrid", {20, make_affine_grid}},
    {"BlackmanWindow", {17, make_blackman_window}},
    {"CausalConvWithState", {27, make_causal_conv}},
    {"Celu", {12, celu}},
    {"CenterCropPad", {18, make_center_crop_pad}},
    {"Col2Im", {18, make_col2im}},
    {"Compress", {11, make_compress}},
    {"ConvInteger", {10, make_conv_integer}},
    {"DeformConv", {22, make_deform_conv}},
    {"DepthToSpace", {13, depth_to_space}},
    {"DequantizeLinear", {24, make_dequantize_linear}},
    {"DynamicQuantizeLinear", {11, make_dynamic_quantize_linear}},
    {"Einsum", {12, make_einsum}},
    {"EyeLike", {22, make_eye_like}},
    {"GRU", {22, make_gru}},
    {"GlobalLpPool", {22, make_global_lp_pool}},
    {"GroupNormalization", {21, group_normalization}},
    {"HammingWindow", {17, make_hamming_window}},
    {"HannWindow", {17, make_hann_window}},
    {"HardSwish", {22, hard_swish}},
    {"Hardmax", {13, hardmax}},
    {"InstanceNormalization", {22, instance_normalization}},
    {"LRN", {13, make_lrn}},
    {"LSTM", {22, make_lstm}},
    {"LpNormalization", {22, lp_normalization}},
    {"LpPool", {22, make_lp_pool}},
    {"MatMulInteger", {10, make_mat_mul_integer}},
    {"MaxUnpool", {22, make_max_unpool}},
    {"Mean", {13, mean_of_inputs}},
    {"MeanVarianceNormalization", {13, mean_variance_normalization}},
    {"MelWeightMatrix", {17, make_mel_weight_matrix}},
    {"Mish", {22, mish}},
    {"PRelu", {16, p_relu}},
    {"QLinearConv", {10, make_q_linear_conv}},
    {"QLinearMatMul", {21, make_q_linear_mat_mul}},
    {"QuantizeLinear", {24, make_quantize_linear}},
    {"RMSNormalization", {23, rms_normalization}},
    {"RNN", {22, make_rnn}},
    {"ReduceLogSum", {18, reduce_log_sum}},
    {"ReduceLogSumExp", {18, reduce_log_sum_exp}},
    {"ReverseSequence", {10, make_reverse_sequence}},
    {"RotaryEmbedding", {23, make_rotary_embedding}},
    {"STFT", {17, make_stft}},
    {"Selu", {22, selu}},
    {"Shrink", {9, shrink}},
    {"Softsign", {22, softsign}},
    {"SpaceToDepth", {13, space_to_depth}},
    {"SwiGLU", {28, swi_glu}},
    {"Swish", {24, swish}},
    {"ThresholdedRelu", {22, thresholded_relu}},
    {"ai.onnx.ml.ArrayFeatureExtractor", {1, make_array_feature_extractor}},
    {"ai.onnx.ml.Binarizer", {1, make_binarizer}},
    {"ai.onnx.ml.TreeEnsemble", {5, make_tree_ensemble}},
    {"ai.onnx.preview.FlexAttention", {1, make_flex_attention}},
    {"ai.onnx.preview.training.Adagrad", {1, make_adagrad}},
    {"ai.onnx.preview.training.Adam", {1, make_adam}},
    {"ai.onnx.preview.training.Momentum", {1, make_momentum}},
};

const std::map<std::string, Composite, std::less<>>& composites() {
  static const std::map<std::string, Composite, std::less<>> kAll(std::begin(kComposites),
                                                                  std::end(kComposites));
  return kAll;
}

std::string full_name(std::string_view domain, std::string_view op) {
  return domain.empty() ? std::string(op) : cat(domain, ".", op);
}

Status expand(DraftGraph& graph, const Locate& locate, size_t& made) {
  std::vector<DraftNode> out;
  for (DraftNode& node : graph.nodes) {
    for (auto& [name, attr] : node.attrs) {
      if (const auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&attr))
        LEAT_RETURN_IF_ERROR(expand(**region, locate, made));
    }
    const std::string domain = node.domain == "ai.onnx" ? "" : node.domain;
    if (!is_composite(domain, node.op)) {
      out.push_back(std::move(node));
      continue;
    }
    Maker maker(node, made, out);
    composites().find(full_name(domain, node.op))->second.make(maker);
    maker.finish();
    if (!maker.status().ok())
      return invalid_argument(
          cat(locate(node.offset), ": ", maker.label(), ": ", maker.status().message()));
  }
  graph.nodes = std::move(out);
  return {};
}

}  // namespace

bool is_composite(std::string_view domain, std::string_view op) {
  return composites().contains(full_name(domain, op));
}

std::vector<CompositeOp> composite_ops() {
  std::vector<CompositeOp> ops;
  for (const auto& [name, composite] : composites()) ops.push_back({name, composite.since});
  return ops;
}

Status expand_composites(DraftGraph& graph, const Locate& locate) {
  size_t made = 0;
  return expand(graph, locate, made);
}

}  // namespace leat
