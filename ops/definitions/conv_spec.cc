#include "ops/definitions/conv_spec.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr int64_t kTiles = 16;              // of a large batch
constexpr int64_t kWorthwhile = 1 << 20;    // the least number of multiply-adds of a tile
constexpr int64_t kPartialBytes = 8 << 20;  // of all partial sums of one gradient of weights
constexpr int64_t kManyWeights =
    256 * 1024;  // from this size on, partial sums cost too much memory traffic

// The spatial sizes of weights [outputs, inputs/groups, sizes...]. They must be constant, because
// the geometry of a window has no symbols.
Result<std::vector<int64_t>> kernel_of(const SymbolicShape& w) {
  std::vector<int64_t> kernel;
  for (int axis = 2; axis < w.rank(); ++axis) {
    if (!w[axis].is_constant())
      return invalid_argument("expected weights whose kernel sizes are known");
    kernel.push_back(w[axis].factor);
  }
  return kernel;
}

// x is always the operand on the side of the inputs and y that of the outputs, whichever of them
// the op computes: the callers swap the operands of a backward op, so that the kernels need not.
ConvSpec make_spec(ConvKind kind, const Attrs& attrs, const WindowAttrs& window,
                   const OperandType& x, const OperandType& y) {
  ConvSpec spec;
  spec.kind = kind;
  spec.dtype = is_16bit_float(x.dtype) ? DType::f32 : x.dtype;
  spec.window = concrete_window(window, x.shape, y.shape);
  spec.images = x.shape[0];
  spec.groups = attr_int(attrs, "group", 1);
  // The channels come from the data and not from the weights, whose axis 1 has only those of one
  // group.
  spec.inputs = x.shape[1];
  spec.outputs = y.shape[1];
  spec.x_layout = x.layout;
  spec.y_layout = y.layout;
  return spec;
}

}  // namespace

// ONNX allows kernel_shape to be absent, since the weights determine it.
Result<WindowAttrs> conv_window(const Attrs& attrs, const SymbolicShape& w) {
  LEAT_ASSIGN_OR_RETURN(auto kernel, kernel_of(w));
  const auto given = attr_ints(attrs, "kernel_shape");
  if (!given.empty() && given != kernel) {
    return invalid_argument(cat("kernel_shape: expected that of the weights, [", join(kernel, ","),
                                "], received [", join(given, ","), "]"));
  }
  return read_window(attrs, std::move(kernel));
}

// The full output has (input - 1) * stride + extent + output_padding elements; pads cut it. The
// formulas are those of ONNX's ConvTranspose.
Result<TransposedWindow> transposed_window(const Attrs& attrs, const SymbolicShape& w,
                                           const SymbolicShape& input) {
  TransposedWindow t;
  LEAT_ASSIGN_OR_RETURN(t.window, conv_window(attrs, w));
  WindowAttrs& window = t.window;
  const auto rank = static_cast<size_t>(window.rank());
  const auto padding = attr_ints(attrs, "output_padding", std::vector<int64_t>(rank, 0));
  const auto wanted = attr_ints(attrs, "output_shape");
  if (padding.size() != rank)
    return invalid_argument(
        cat("output_padding: expected ", rank, " values, received ", padding.size()));
  if (!wanted.empty() && wanted.size() != rank)
    return invalid_argument(
        cat("output_shape: expected ", rank, " values, received ", wanted.size()));
  // Each axis: its size without pads, the wanted size, and the pads that lead from one to the
  // other.
  for (size_t i = 0; i < rank; ++i) {
    const int axis = static_cast<int>(i);
    const auto size = constant_of(input[axis + 2]);
    if (!size || *size < 1 || *size > kMostWindow)
      return invalid_argument("expected an input whose spatial sizes are known and at least 1");
    if (padding[i] < 0 || padding[i] >= std::max(window.strides[i], window.dilations[i])) {
      return invalid_argument(
          cat("output_padding: expected values below stride or dilation, received ", padding[i]));
    }
    const int64_t full = (*size - 1) * window.strides[i] + padding[i] + window.extent(axis);
    const bool same = window.auto_pad.starts_with("SAME");
    // An explicit output_shape is the strongest; SAME gives input * stride; else the given pads
    // count.
    const int64_t output = !wanted.empty() ? wanted[i]
                           : same          ? *size * window.strides[i]
                                           : full - window.begin[i] - window.end[i];
    if (output < 1)
      return invalid_argument(
          cat("axis ", axis, ": expected pads that leave an output, its size would be ", output));
    if (!wanted.empty() || same) {
      // If the total is odd, SAME_UPPER puts the odd element at the end, and any other mode at the
      // beginning.
      const int64_t total = std::max<int64_t>(0, full - output), half = total / 2;
      const bool upper = window.auto_pad == "SAME_UPPER";
      window.begin[i] = upper ? half : total - half;
      window.end[i] = upper ? total - half : half;
    }
    t.output.push_back(output);
  }
  // The pads are explicit now: nothing must resolve auto_pad from the sizes once more.
  window.auto_pad = "NOTSET";
  return t;
}

Result<ConvSpec> conv_spec(const OpTypes& types) {
  LEAT_ASSIGN_OR_RETURN(const auto window, conv_window(*types.attrs, types.inputs[1].shape));
  ConvSpec spec =
      make_spec(ConvKind::forward, *types.attrs, window, types.inputs[0], types.outputs[0]);
  spec.bias = types.has_input(2);
  spec.relu = attr_string(*types.attrs, "leat_activation") == "relu";
  return spec;
}

// The op computes x, so the roles swap: its output is x, and its input dy is y.
Result<ConvSpec> conv_grad_input_spec(const OpTypes& types) {
  LEAT_ASSIGN_OR_RETURN(const auto window, conv_window(*types.attrs, types.inputs[1].shape));
  return make_spec(ConvKind::backward_data, *types.attrs, window, types.outputs[0],
                   types.inputs[0]);
}

// The weights are the result, so kernel_shape is an attribute here and no operand tells it.
Result<ConvSpec> conv_grad_weights_spec(const OpTypes& types) {
  LEAT_ASSIGN_OR_RETURN(const auto window,
                        read_window(*types.attrs, attr_ints(*types.attrs, "kernel_shape")));
  ConvSpec spec =
      make_spec(ConvKind::backward_weights, *types.attrs, window, types.inputs[0], types.inputs[1]);
  spec.bias = types.has_output(1);
  return spec;
}

// A ConvTranspose is the gradient of a convolution's input: its output takes the place of x.
Result<ConvSpec> conv_transpose_spec(const OpTypes& types) {
  LEAT_ASSIGN_OR_RETURN(
      const auto transposed,
      transposed_window(*types.attrs, types.inputs[1].shape, types.inputs[0].shape));
  return make_spec(ConvKind::backward_data, *types.attrs, transposed.window, types.outputs[0],
                   types.inputs[0]);
}

// A sixteenth of the batch, but at most 32 images, unless so few images are too little work for a
// tile. The last bound is the whole batch.
int64_t conv_tile_images(int64_t images, int64_t multiply_adds) {
  const int64_t share = (images + kTiles - 1) / kTiles;
  const int64_t worthwhile = kWorthwhile / std::max<int64_t>(1, multiply_adds) + 1;
  return std::clamp<int64_t>(std::max(std::min<int64_t>(share, 32), worthwhile), 1,
                             std::max<int64_t>(1, images));
}

// A cut by channels needs no partial sums, but every tile reads all images. It pays for large
// weights, whose partial sums would be more memory traffic than that; for a 1x1 convolution, which
// is mostly one product then, also for those that are large beside their images.
bool weights_by_channels(const ConvSpec& spec) {
  if (spec.dtype == DType::f64 || spec.groups != 1 || spec.outputs % kSliceOutputs != 0 ||
      spec.images == 0)
    return false;
  if (spec.weights() >= kManyWeights) return spec.outputs >= 8 * kSliceOutputs;
  const int64_t pixels = spec.images * spec.window.output_area();
  return spec.window.kernel_area() == 1 && spec.weights() >= kManyWeights / 4 &&
         spec.weights() >= 2 * pixels * (spec.inputs + spec.outputs);
}

// The partial sums of all tiles should take about kPartialBytes, so there are 4 to 16 of them, the
// fewer the larger the weights. A tile has at least the images of a tile of a forward convolution.
int64_t conv_weights_tile_images(const ConvSpec& spec) {
  // The gradients of bf16 are summed in f32.
  const int64_t bytes = spec.weights() * (spec.dtype == DType::f64 ? 8 : 4);
  const int64_t parts = std::clamp<int64_t>(kPartialBytes / std::max<int64_t>(1, bytes), 4, kTiles);
  return std::max(conv_tile_images(spec.images, spec.multiply_adds()),
                  (spec.images + parts - 1) / parts);
}

}  // namespace leat
